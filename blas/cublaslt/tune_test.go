package cublaslt

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/pinion-gpu/pinion/blas"
	"github.com/pinion-gpu/pinion/blas/blastest"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/dl"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// tuned is a multiplier and memory for products of a megabyte.
type tuned struct {
	*multiplier
	t      *testing.T
	stream device.Stream
	at     device.Ptr
	random *rand.Rand
}

func openTuned(t *testing.T, dev device.Device) *tuned {
	t.Helper()
	b, err := Open(dev)
	testkit.OK(t, err)
	s, err := dev.NewStream()
	testkit.OK(t, err)
	at, err := dev.Alloc(6<<20 + b.WorkspaceBytes())
	testkit.OK(t, err)
	t.Cleanup(func() { testkit.OK(t, errors.Join(s.Close(), dev.Free(at), b.Close())) })
	return &tuned{b.(*multiplier), t, s, at, rand.New(rand.NewPCG(1, 2))}
}

// problem is g with addresses, workspace and, if with is set, an addend and a bias; and
// what is there.
func (u *tuned) problem(g blas.Gemm, with bool) (blas.Gemm, blastest.Memory) {
	u.t.Helper()
	place := func(i int64, n int64, d dtype.DType) ([]byte, device.Ptr) {
		values := blastest.Random(u.random, n/int64(d.Size()), d)
		at := u.at.Add(i << 20)
		testkit.OK(u.t, u.stream.CopyH2D(at, values))
		testkit.OK(u.t, u.stream.Synchronize())
		return values, at
	}
	a, b, c := g.Shapes()
	var m blastest.Memory
	m.A, g.A.Ptr = place(0, a.Bytes, g.Type)
	m.B, g.B.Ptr = place(1, b.Bytes, g.Type)
	m.C, g.C.Ptr = place(2, c.Bytes, g.ResultType())
	if with {
		g.Beta, g.Addend.BatchStride = 1, g.C.BatchStride
		m.Addend, g.Addend.Ptr = place(3, c.Bytes, g.ResultType())
		m.Bias, g.Bias = place(4, g.N*int64(g.ResultType().Size()), g.ResultType())
	}
	g.Workspace, g.WorkspaceBytes = u.at.Add(6<<20), u.WorkspaceBytes()
	return g, m
}

// result is the memory of C after g.
func (u *tuned) result(g blas.Gemm, n int) []byte {
	u.t.Helper()
	got := make([]byte, n)
	testkit.OK(u.t, u.stream.Memset(g.C.Ptr, 0, int64(n)))
	testkit.OK(u.t, u.Gemm(u.stream, g))
	testkit.OK(u.t, u.stream.CopyD2H(got, g.C.Ptr))
	testkit.OK(u.t, u.stream.Synchronize())
	return got
}

// offer is what a multiplier has chosen, and what the library offers it.
type offer struct {
	chosen configuration
	list   []candidate
}

func (o offer) String() string {
	var b strings.Builder
	at, _ := find(o.list, o.chosen)
	fmt.Fprintf(&b, "  %+v, at %d (-1 for none) of %d:", o.chosen, at, len(o.list))
	for i, c := range o.list {
		fmt.Fprintf(&b, "\n    %d: %+v, opaque %x", i, c.configuration, c.algorithm)
	}
	return b.String()
}

// offered asks for what was chosen for g, and from what.
func (u *tuned) offered(g blas.Gemm) (o offer) {
	u.t.Helper()
	u.mu.Lock()
	defer u.mu.Unlock()
	p := problemOf(&g)
	r := u.routines[p]
	testkit.OK(u.t, u.native.WithContext(func() (err error) {
		if o.chosen, err = configurationOf(&r.algorithm); err == nil {
			o.list, err = u.candidates(r, &p, g.Bias)
		}
		return err
	}))
	return o
}

// TestConfiguration: attributes have the sizes that they are read with, and each has its
// place.
func TestConfiguration(t *testing.T) {
	u := openTuned(t, open(t))
	g, m := u.problem(blas.Gemm{M: 8, N: 8, K: 8, Alpha: 1, Type: dtype.BF16}, false)
	u.result(g, len(m.C))
	p := problemOf(&g)
	a := &u.routines[p].algorithm
	for _, x := range new(configuration).attributes() {
		var size uintptr
		testkit.OK(t, check("cublasLtMatmulAlgoConfigGetAttribute",
			api.configGet.Call(uintptr(unsafe.Pointer(a)), x.number, 0, 0, uintptr(unsafe.Pointer(&size)))))
		if size != x.size {
			t.Errorf("attribute %d has %d bytes, not %d", x.number, size, x.size)
		}
	}
	got, err := configurationOf(a)
	testkit.OK(t, err)
	if want := (configuration{0, 10, 20, 30, 40, 50, 60, 70, 80}); standIns.File != "" && got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestTune: products are right with the routine that was chosen, and another process
// would choose the same.
func TestTune(t *testing.T) {
	dev := open(t)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	u, other := openTuned(t, dev), openTuned(t, dev)
	for _, d := range [][2]dtype.DType{{dtype.F32, dtype.F32}, {dtype.BF16, dtype.BF16}, {dtype.BF16, dtype.F32}, {dtype.F16, dtype.F16}} {
		for kind := range 4 {
			g := blas.Gemm{M: 64, N: 48, K: 40, Alpha: 1, Type: d[0], TypeC: d[1], TransB: kind == 1}
			if kind == 2 {
				g.Batch, g.A.BatchStride, g.C.BatchStride = 3, 64*40, 64*48
			}
			g, m := u.problem(g, kind == 3)
			testkit.OK(t, u.Tune(u.stream, g))
			testkit.OK(t, u.Tune(u.stream, g))
			got := u.result(g, len(m.C))
			if err := blastest.Compare(g, got, m); err != nil {
				t.Errorf("%v, %d: %v", d, kind, err)
			}
			p := problemOf(&g)
			if !u.routines[p].tuned {
				t.Errorf("%v, %d: not chosen", d, kind)
			}
			testkit.OK(t, other.Tune(u.stream, g))
			mine, theirs := u.offered(g), other.offered(g)
			if mine.chosen != theirs.chosen {
				t.Errorf("%v, %d: another time, another choice:\n%v\n%v", d, kind, mine, theirs)
			} else if again := other.result(g, len(m.C)); !bytes.Equal(got, again) {
				t.Errorf("%v, %d: the same choice, %+v, and other results", d, kind, mine.chosen)
			}
		}
	}
}

// TestTuneOnce: what was kept is not measured again, unless it makes no sense, and what
// cannot be kept is not chosen.
func TestTuneOnce(t *testing.T) {
	dev := open(t)
	if standIns.File == "" {
		t.Skip("the stand-in counts")
	}
	var launched dl.Func
	_, err := dl.Open(dl.Library{Name: "fake", Files: []string{standIns.File}, Symbols: []dl.Symbol{{Name: "fakecublasltLaunched", Func: &launched}}})
	testkit.OK(t, err)
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	// times is how often routines are launched for a choice, by a new multiplier.
	times := func() (n int) {
		t.Run("choice", func(t *testing.T) {
			u := openTuned(t, dev)
			g, _ := u.problem(blas.Gemm{M: 8, N: 8, K: 8, Alpha: 1, Type: dtype.BF16}, true)
			before := launched.Call()
			testkit.OK(t, u.Tune(u.stream, g))
			n = int(launched.Call() - before)
		})
		return n
	}
	// Of six that the library offers, two run, one does not, and one is as another.
	all := 2*(1+rounds)*launches + 1
	if n := times(); n != all {
		t.Errorf("measured with %d launches, want %d", n, all)
	}
	if n := times(); n != 0 {
		t.Errorf("measured again, with %d launches", n)
	}
	files, err := filepath.Glob(filepath.Join(cache, "pinion", "cublaslt-*.json"))
	testkit.OK(t, err)
	if len(files) != 1 {
		t.Fatalf("kept in %v", files)
	}
	data, err := os.ReadFile(files[0])
	testkit.OK(t, err)
	unknown := regexp.MustCompile(`"id": ?\d+`).ReplaceAllString(string(data), `"id": 99`)
	for _, text := range []string{"", "null", "[", `{"x": 1}`, unknown} {
		testkit.OK(t, os.WriteFile(files[0], []byte(text), 0o600))
		if n := times(); n != all {
			t.Errorf("%q is kept: %d launches", text, n)
		}
	}
	testkit.OK(t, os.RemoveAll(filepath.Join(cache, "pinion")))
	testkit.OK(t, os.WriteFile(filepath.Join(cache, "pinion"), nil, 0o600))
	u := openTuned(t, dev)
	g, _ := u.problem(blas.Gemm{M: 8, N: 8, K: 8, Alpha: 1, Type: dtype.BF16}, false)
	if err := u.Tune(u.stream, g); err == nil || u.routines[problemOf(&g)].tuned {
		t.Errorf("chosen, but not kept: %v", err)
	}
	g.Beta = 1
	if err := u.Tune(u.stream, g); !errors.Is(err, device.ErrArgument) {
		t.Errorf("a sum in place: %v", err)
	}
	testkit.OK(t, u.Tune(u.stream, blas.Gemm{N: 1, K: 1, Type: dtype.F32}))
	if err := u.Tune(nil, g); !errors.Is(err, device.ErrArgument) {
		t.Errorf("no stream: %v", err)
	}
}

func TestFastest(t *testing.T) {
	ms := func(list ...int) []time.Duration {
		d := []time.Duration{}
		for _, n := range list {
			d = append(d, time.Duration(n)*time.Millisecond)
		}
		return d
	}
	for i, test := range []struct {
		times [][]time.Duration
		want  int
	}{
		{[][]time.Duration{ms(100, 100), ms(98, 98), nil, ms(99, 99)}, 0},
		{[][]time.Duration{ms(100, 100), ms(98, 98), ms(90, 90), ms(89, 89)}, 3},
		{[][]time.Duration{ms(100), ms(90), ms(96)}, 1},
		{[][]time.Duration{nil, nil, ms(90), ms(91)}, 2},
		{[][]time.Duration{ms(50, 51, 900), ms(60, 60, 60)}, 0},
		{[][]time.Duration{nil, nil}, 0},
	} {
		if got := fastest(test.times); got != test.want {
			t.Errorf("%d: %d, want %d", i, got, test.want)
		}
	}
}
