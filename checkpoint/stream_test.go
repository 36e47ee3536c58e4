package checkpoint

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/safetensors"
	"github.com/pinion-gpu/pinion/vram"
)

func TestLayers(t *testing.T) {
	var tensors []safetensors.Tensor
	for _, name := range []string{"lm_head.weight", "model.layers.10.a.weight", "model.embed.weight", "model.layers.2.b", "model.layers.10.b.0", "model.layers.2.a",
		"model.norm.weight", "lm_head.bias", "scale", "h.007.x", "h.7.x", "h.8.x"} {
		tensors = append(tensors, safetensors.Tensor{Name: name, Bytes: 2})
	}
	var got []string
	for _, l := range Layers(tensors) {
		got = append(got, fmt.Sprint(l.Name, len(l.Tensors), l.Bytes()))
	}
	want := []string{"h.0071 2", "h.71 2", "h.81 2", "lm_head2 4", "model.embed1 2", "model.layers.22 4", "model.layers.102 4", "model.norm1 2", "scale1 2"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// The order is that of the parts of names, and a name of many parts takes no
// memory for them.
func TestLayerNames(t *testing.T) {
	sorted := []string{"", ".", "..", ".a", "2", "2.", "2.a", "10", "10.a", "a", "a.", "a..", "a.02", "a.2", "a.10", "a.b", "a.b.c", "b"}
	for i, a := range sorted {
		for j, b := range sorted {
			if got := compareNames(a, b); got != cmp.Compare(i, j) && a != b {
				t.Errorf("%q and %q compare as %d", a, b, got)
			}
		}
	}
	long := strings.Repeat(".", 100_000)
	tensors := []safetensors.Tensor{{Name: long + "a"}, {Name: long + "b.c"}}
	if n := testing.AllocsPerRun(10, func() { layerOf(long) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if n := testing.AllocsPerRun(10, func() { compareNames(tensors[0].Name, tensors[1].Name) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Without Place, layers stay together and targets get about the same.
func TestPlace(t *testing.T) {
	var tensors []safetensors.Tensor
	for i := range 24 {
		for _, part := range []string{"up", "down", "norm"} {
			tensors = append(tensors, safetensors.Tensor{Name: fmt.Sprintf("layers.%d.%s", i, part), Bytes: int64(len(part)) * 1000})
		}
	}
	for n := 1; n <= 5; n++ {
		weights := slices.Repeat([]float64{1}, n)
		shares, err := (&Options{}).place(tensors, weights)
		testkit.OK(t, err)
		of, count := map[string]int{}, 0
		for i, share := range shares {
			bytes := int64(0)
			for _, x := range share {
				l := layerOf(x.Name)
				if j, ok := of[l]; ok && j != i {
					t.Errorf("%s is on targets %d and %d", l, i, j)
				}
				of[l] = i
				bytes += x.Bytes
				count++
			}
			if want := int64(24 * 10_000 / n); bytes < want-10_000 || bytes > want+10_000 {
				t.Errorf("target %d of %d has %d bytes, want about %d", i, n, bytes, want)
			}
		}
		if count != len(tensors) {
			t.Errorf("%d tensors have a target", count)
		}
	}
	shares, err := (&Options{}).place(tensors, []float64{1, 0, 3})
	testkit.OK(t, err)
	for i, want := range []int{6 * 3, 0, 18 * 3} {
		if len(shares[i]) != want {
			t.Errorf("target %d has %d tensors, want %d", i, len(shares[i]), want)
		}
	}
}

// Where the same for all does not fit, those with more room get more.
func TestLoadUneven(t *testing.T) {
	testkit.NoLeaks(t)
	var tensors []safetensors.Tensor
	for i := range 20 {
		tensors = append(tensors, tensor(fmt.Sprintf("h.%d.w", i), safetensors.U8, 100<<10))
	}
	m := write(t, 0, tensors...)
	f := &fixture{TB: t}
	for _, size := range []string{"host:512KiB", "host:2MiB"} {
		dev := testkit.Must(device.Open(size))(t)
		t.Cleanup(func() { dev.Close() })
		f.targets = append(f.targets, Target{Engine: f.engine(dev)})
	}
	w := testkit.Must(Load(t.Context(), m.ck, Options{}, f.targets...))(t)
	for _, x := range w.Tensors() {
		f.check(m, x, 0)
	}
	testkit.OK(t, w.Close())
	_, err := Load(t.Context(), m.ck, Options{}, f.targets[0], f.targets[0])
	testkit.WantError(t, "too little", err, device.ErrOutOfMemory, "loading 10 tensors needs 1000 KiB")
}

// Every layer comes with its bytes, which stay until work that was queued on
// the stream is done.
func TestStream(t *testing.T) {
	testkit.NoLeaks(t)
	r := rand.New(rand.NewPCG(3, 9))
	for round := range 12 {
		f := open(t, 1+r.IntN(3))
		m := write(t, 200_000, some(r, 40)...)
		o := StreamOptions{Buffers: r.IntN(4)}
		for range f.targets {
			o.On = append(o.On, testkit.Must(f.dev.NewStream())(t))
		}
		if round%4 == 1 {
			o.Place = func(layer string) int { return len(layer) * 7 % len(f.targets) }
		}
		o.Floats = []dtype.DType{0, dtype.F32, dtype.BF16}[round%3]
		if round%2 == 1 {
			o.limits = limits{step: 30_000, small: 2000, gap: 100, group: 5000, staging: 10_000, parallel: 2}
		}
		last := int64(0)
		o.Progress = func(done, total int64) {
			last = done
			if total != m.ck.Bytes() {
				t.Errorf("of %d bytes, want %d", total, m.ck.Bytes())
			}
		}
		names, seen := []string{}, 0
		kept := testkit.Must(f.dev.Alloc(int64(len(f.targets)) << 20))(t)
		for layer, err := range Stream(t.Context(), m.ck, o, f.targets...) {
			testkit.OK(t, err)
			want := len(names) % len(f.targets)
			if o.Place != nil {
				want = o.Place(layer.Name)
			}
			if layer.Target != want {
				t.Errorf("layer %d, %q, is on target %d, want %d", len(names), layer.Name, layer.Target, want)
			}
			stream := o.On[layer.Target]
			names = append(names, layer.Name)
			for _, x := range layer.Tensors {
				seen++
				if found, ok := layer.Find(x.Name); !ok || found.Ptr != x.Ptr || x.Target != layer.Target {
					t.Errorf("%q is not found", x.Name)
				}
				f.check(m, x, o.Floats)
			}
			// Queued, not waited for: by the time it runs, the loop may be
			// layers ahead.
			if x := layer.Tensors[0]; x.Bytes > 0 && x.Bytes <= 1<<20 {
				at := kept.Add(int64(layer.Target) << 20)
				testkit.OK(t, stream.CopyD2D(at, x.Ptr, x.Bytes))
				got := make([]byte, x.Bytes)
				defer func(x Tensor, want []byte) {
					if string(got) != string(want) {
						t.Errorf("%q was overwritten while it was in use", x.Name)
					}
				}(x, data(safetensors.Tensor{DType: m.stored(x).DType, Shape: x.Shape}, x.DType, m.seeds[x.Name]))
				testkit.OK(t, stream.CopyD2H(got, at))
			}
		}
		for _, stream := range o.On {
			testkit.OK(t, stream.Synchronize())
			testkit.OK(t, stream.Close())
		}
		testkit.OK(t, f.dev.Free(kept))
		if !slices.IsSortedFunc(names, compareNames) || seen != 40 || last != m.ck.Bytes() {
			t.Errorf("layers %q, %d tensors, %d bytes", names, seen, last)
		}
	}
}

func (m *model) stored(x Tensor) safetensors.Tensor {
	s, _ := m.ck.Find(x.Name)
	return s
}

// A loop may end at any time, and layers may repeat.
func TestStreamEnds(t *testing.T) {
	testkit.NoLeaks(t)
	f := open(t, 1)
	var tensors []safetensors.Tensor
	for i := range 10 {
		tensors = append(tensors, tensor(fmt.Sprintf("h.%d.w", i), safetensors.F32, 1000))
	}
	m := write(t, 0, tensors...)
	for n := range 10 {
		i := 0
		for _, err := range Stream(t.Context(), m.ck, StreamOptions{}, f.targets[0]) {
			testkit.OK(t, err)
			if i++; i > n {
				break
			}
		}
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		for range Stream(t.Context(), m.ck, StreamOptions{}, f.targets[0]) {
			panic("stop")
		}
	}()
	layers := Layers(m.ck.Tensors())[:3]
	var names []string
	back := []Layer{layers[0], layers[1], layers[2], layers[1], layers[0]}
	for l, err := range Stream(t.Context(), m.ck, StreamOptions{Layers: back}, f.targets[0]) {
		testkit.OK(t, err)
		names = append(names, l.Name)
		f.check(m, l.Tensors[0], 0)
	}
	if !slices.Equal(names, []string{"h.0", "h.1", "h.2", "h.1", "h.0"}) {
		t.Errorf("%q", names)
	}
	ended, cancel := context.WithCancel(t.Context())
	defer cancel()
	var errs []error
	for l, err := range Stream(ended, m.ck, StreamOptions{}, f.targets[0]) {
		if err != nil {
			errs = append(errs, err)
		} else if l.Name == "h.3" {
			cancel()
		}
	}
	if len(errs) != 1 || errs[0] != context.Canceled {
		t.Errorf("%v, want the context's error", errs)
	}
	for name, o := range map[string]StreamOptions{
		"buffers": {Buffers: -1},
		"budget":  {Budget: -1},
		"layers":  {Layers: []Layer{{Name: "x", Tensors: []safetensors.Tensor{tensor("x", safetensors.U8)}}}},
		"streams": {On: make([]device.Stream, 2)},
		"place":   {Options: Options{Place: func(string) int { return 1 }}},
	} {
		for _, err := range Stream(t.Context(), m.ck, o, f.targets[0]) {
			testkit.WantError(t, name, err, ErrArgument)
		}
	}
}

// An error on one device ends the loop, however much the others could still do,
// and is the one that the loop gets.
func TestStreamFails(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("it does not cut a file that is open")
	}
	testkit.NoLeaks(t)
	f := open(t, 3)
	var tensors []safetensors.Tensor
	for i := range 40 {
		tensors = append(tensors, tensor(fmt.Sprintf("h.%d.w", i), safetensors.F32, 1000))
	}
	m := write(t, 1, tensors...) // a file each
	cut, _ := m.ck.Find("h.7.w")
	testkit.OK(t, os.Truncate(cut.File.Path(), 100))
	var errs []error
	n := 0
	for l, err := range Stream(t.Context(), m.ck, StreamOptions{}, f.targets...) {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		f.check(m, l.Tensors[0], 0)
		n++
	}
	if len(errs) != 1 || n > 7 {
		t.Fatalf("%v after %d layers", errs, n)
	}
	testkit.WantError(t, "cut short", errs[0], io.ErrUnexpectedEOF, cut.File.Path())
}

// However a loop ends, work that was queued on its layers is done before their
// memory is free.
func TestStreamWaits(t *testing.T) {
	f := open(t, 1)
	caller, ok := device.As[device.Caller](f.dev)
	if !ok {
		t.Skip("the device runs no Go functions in its streams")
	}
	stream := testkit.Must(f.dev.NewStream())(t)
	defer stream.Close()
	m := write(t, 0, tensor("h.0.w", safetensors.F32, 1000), tensor("h.1.w", safetensors.F32, 1000))
	pool := testkit.Must(vram.New(f.dev, vram.Options{}))(t) // which does not wait when memory is freed
	defer func() { testkit.OK(t, pool.Close()) }()
	f.targets[0].Pool = pool
	for name, end := range map[string]func(){"break": nil, "panic": func() { panic("stop") }} {
		var done atomic.Bool
		func() {
			defer func() { recover() }()
			for _, err := range Stream(t.Context(), m.ck, StreamOptions{On: []device.Stream{stream}}, f.targets[0]) {
				testkit.OK(t, err)
				testkit.OK(t, caller.Call(stream, func() error {
					time.Sleep(20 * time.Millisecond)
					done.Store(true)
					return nil
				}))
				if end != nil {
					end()
				}
				break
			}
		}()
		if !done.Load() {
			t.Errorf("%s: the memory is free, and the work not done", name)
		}
	}
}

// What is saved is loaded again.
func TestSave(t *testing.T) {
	testkit.NoLeaks(t)
	r := rand.New(rand.NewPCG(5, 5))
	f := open(t, 2)
	m := write(t, 100_000, some(r, 50)...)
	w := testkit.Must(Load(t.Context(), m.ck, Options{}, f.targets...))(t)
	defer w.Close()
	dir := t.TempDir()
	for _, path := range []string{filepath.Join(dir, "one.safetensors"), filepath.Join(dir, "many")} {
		o := SaveOptions{WriterOptions: safetensors.WriterOptions{ShardBytes: 150_000, Metadata: map[string]string{"format": "pt"}}}
		last := int64(0)
		o.Progress = func(done, total int64) { last = done }
		testkit.OK(t, Save(t.Context(), path, w.Tensors(), o, f.targets...))
		again := *m
		again.ck = testkit.Must(safetensors.Open(path))(t)
		loaded := testkit.Must(Load(t.Context(), again.ck, Options{}, f.targets[1]))(t)
		g := *f
		g.targets = f.targets[1:]
		for _, x := range loaded.Tensors() {
			g.check(&again, x, 0)
		}
		if len(loaded.Tensors()) != 50 || last != w.Report().Bytes {
			t.Errorf("%d tensors, %d bytes", len(loaded.Tensors()), last)
		}
		testkit.OK(t, loaded.Close())
		testkit.OK(t, again.ck.Close())
	}
	path := filepath.Join(dir, "bad.safetensors")
	bad := w.Tensors()[0]
	bad.Target = 2
	testkit.WantError(t, "target", Save(t.Context(), path, []Tensor{bad}, SaveOptions{}, f.targets...), ErrArgument, "target 2 of 2")
	bad.Target, bad.Bytes = 0, 1<<40
	testkit.WantError(t, "bytes", Save(t.Context(), path, []Tensor{bad}, SaveOptions{}, f.targets...), ErrArgument, "1099511627776 bytes")
	closed := f.engine(f.dev)
	testkit.OK(t, closed.Close())
	testkit.WantError(t, "closed", Save(t.Context(), path, w.Tensors(), SaveOptions{}, Target{Engine: closed}, Target{Engine: closed}), device.ErrClosed)
	if left := testkit.Must(filepath.Glob(dir + "/*bad*"))(t); len(left) > 0 {
		t.Errorf("%q is left", left)
	}
}
