package attention

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// launcher is a device that only notes what is launched.
type launcher struct {
	device.Device
	major    int
	minor    int
	missing  string         // kernel that its modules lack
	closed   int            // modules
	launches map[string]int // bytes of parameters
	grids    []device.Grid
}

type kernel struct {
	l    *launcher
	name string
}

type stream struct{ device.Stream }

func (l *launcher) Synchronize() error { return nil }
func (l *launcher) Info() device.Info {
	return device.Info{ID: "launcher", Multiprocessors: 10, ComputeCapability: [2]int{l.major, l.minor}}
}
func (l *launcher) ImageFormat() device.ImageFormat            { return device.PTX }
func (l *launcher) LoadModule(_ []byte) (device.Module, error) { return l, nil }
func (l *launcher) Close() error                               { l.closed++; return nil }
func (l *launcher) Kernel(name string) (device.Kernel, error) {
	if name == l.missing {
		return nil, errors.New("no such kernel")
	}
	return kernel{l, name}, nil
}

func (k kernel) Launch(_ device.Stream, grid device.Grid, args *device.Args) error {
	k.l.launches[k.name] = len(args.Bytes())
	k.l.grids = append(k.l.grids, grid)
	return args.Err()
}

// What is compiled is what is launched: kernels, their parameters, and what they assume.
func TestPTX(t *testing.T) {
	launches := map[string]int{}
	for _, major := range []int{7, 8} {
		l := &launcher{major: major, launches: launches}
		s := testkit.Must(Load(l))(t)
		for _, dt := range types {
			for _, width := range widths {
				for _, group := range []int{1, 3, 8, 16} {
					layout := Layout{Type: dt, Pages: 1 << 20, Blocks: 4, BlockBytes: 1 << 20, BlockTokens: 16, Values: 1 << 18, Heads: 2, Width: width}
					q := Query{Rows: Rows{N: 1, Sequence: 64, Length: 64, Tables: 64, Sequences: 1, TableWidth: 100}, Query: 64, Out: 64, Heads: 2 * group, Scratch: 64, ScratchBytes: 1 << 20}
					testkit.OK(t, s.Attend(stream{}, layout, q))
					q.ScratchBytes = 15
					testkit.WantError(t, "too little", s.Attend(stream{}, layout, q), device.ErrArgument, "Scratch is 15 bytes at 0x40, and ")
					testkit.OK(t, s.Store(stream{}, layout, q.Rows, 64, 64))
				}
			}
		}
		testkit.OK(t, s.Close())
		testkit.OK(t, s.Close())
		if want := major - 6; l.closed != want {
			t.Errorf("%d modules were closed, want %d", l.closed, want)
		}
	}
	for text, target := range map[string]string{string(ptx): "sm_75", string(tensorPTX): "sm_80"} {
		if !strings.HasPrefix(strings.TrimSpace(text), ".version 7.0\n.target "+target+"\n") {
			t.Errorf("the PTX for %s begins with %.40q", target, text)
		}
		for name, entry := range testkit.PTXEntries(text) {
			if n, ok := launches[name]; !ok || n != entry.ParamBytes {
				t.Errorf("%s takes %d bytes of parameters, and is launched with %d", name, entry.ParamBytes, n)
			}
			delete(launches, name)
		}
	}
	if len(launches) > 0 {
		t.Errorf("not compiled: %v; go generate compiles it, where nvcc is", launches)
	}
	source := string(testkit.Must(os.ReadFile("tensor.cu"))(t))
	if want := fmt.Sprintf("STAGES = %d;", tensor.stages); !strings.Contains(source, want) {
		t.Errorf("tensor.cu has no %q", want)
	}
	source = string(testkit.Must(os.ReadFile("pages.cuh"))(t))
	if want := fmt.Sprintf("WARPS = %d,", threads/32); !strings.Contains(source, want) {
		t.Errorf("pages.cuh has no %q", want)
	}
}

func TestLoad(t *testing.T) {
	for _, missing := range []string{"store", "attend_bf16_128_1", "tensor_f16_64_16"} {
		l := &launcher{major: 9, missing: missing}
		if _, err := Load(l); err == nil || !strings.Contains(err.Error(), missing) || l.closed == 0 {
			t.Errorf("%v, with %d modules closed, want an error that names %s", err, l.closed, missing)
		}
	}
}

// Few rows are divided so that the device is busy, and many are not.
func TestDivide(t *testing.T) {
	for _, c := range []struct{ blocks, tokens, atOnce, want int }{
		{512, 8192, 0, 1},       // Go functions
		{8, 100, 264, 1},        // too short
		{1000000, 8192, 264, 1}, // enough without
		{264, 8192, 264, 1},
		{8, 8192, 264, 33},
		{132, 8192, 264, 2},
		{200, 8192, 264, 5}, // 1000 of 1056
	} {
		if got := divide(c.blocks, c.tokens, c.atOnce); got != c.want {
			t.Errorf("%d thread blocks with %d tokens, of which %d are at once: %d parts, want %d", c.blocks, c.tokens, c.atOnce, got, c.want)
		}
	}
	// As many heads as there are have the kernel that has them with the least left over.
	for n, want := range map[int]int{1: 8, 8: 8, 9: 16, 16: 16, 40: 16} {
		if got := tensor.group(n); got != want || !slices.Contains(tensor.groups, got) {
			t.Errorf("a group of %d has a kernel for %d, want %d", n, got, want)
		}
	}
	for capability, want := range map[[2]int]int{{8, 0}: 264, {8, 6}: 132, {9, 0}: 264} {
		s := testkit.Must(Load(&launcher{major: capability[0], minor: capability[1], launches: map[string]int{}}))(t)
		s.multiprocessors = 132
		if got := s.atOnce(tensor, 128); got != want || s.atOnce(plain, 64) != 132*6 {
			t.Errorf("compute capability %v: %d thread blocks at once, want %d", capability, got, want)
		}
	}
	if got := tensor.shared(128); got != 96<<10 || plain.shared(128) != 0 {
		t.Errorf("%d and %d bytes of shared memory", got, plain.shared(128))
	}
}
