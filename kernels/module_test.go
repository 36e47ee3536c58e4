package kernels

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

var (
	//go:embed resample.cuh
	resampleSource string
	//go:embed spans.cuh
	spansSource string
	//go:embed pairs.cuh
	pairsSource string
	//go:embed *.cu *.cuh
	sources embed.FS
)

// launcher is a device that only notes what is launched.
type launcher struct {
	device.Device
	format   device.ImageFormat // of its modules; default PTX
	missing  string             // kernel that its modules lack
	closed   int                // modules
	launches []launched
}

type launched struct {
	name     string
	grid     device.Grid
	argBytes int
}

type stream struct{ device.Stream }

func (stream) Memset(device.Ptr, byte, int64) error { return nil }

func (l *launcher) Synchronize() error                         { return nil }
func (l *launcher) Info() device.Info                          { return device.Info{ID: "launcher", Multiprocessors: 10} }
func (l *launcher) ImageFormat() device.ImageFormat            { return cmp.Or(l.format, device.PTX) }
func (l *launcher) LoadModule(_ []byte) (device.Module, error) { return l, nil }
func (l *launcher) Close() error                               { l.closed++; return nil }
func (l *launcher) Kernel(name string) (k device.Kernel, e error) {
	if name == l.missing {
		return nil, errors.New("no such kernel")
	}
	return kernel{l, name}, nil
}

type kernel struct {
	l    *launcher
	name string
}

func (k kernel) Launch(_ device.Stream, grid device.Grid, args *device.Args) error {
	k.l.launches = append(k.l.launches, launched{k.name, grid, len(args.Bytes())})
	return nil
}

func withPTX(t *testing.T, text string) {
	old := ptx
	ptx = []byte(text)
	t.Cleanup(func() { ptx = old })
}

func TestLoadWithoutDeviceCode(t *testing.T) {
	withPTX(t, "")
	_, err := Load(&launcher{})
	if !errors.Is(err, device.ErrNotSupported) || !strings.Contains(err.Error(), "kernels.ptx is empty") {
		t.Errorf("Load: %v", err)
	}
}

// A device whose kernels are of another format than ours is told so.
func TestLoadOtherFormat(t *testing.T) {
	withPTX(t, "some")
	_, err := Load(&launcher{format: "HSACO"})
	if !errors.Is(err, device.ErrNotSupported) || !strings.Contains(err.Error(), "HSACO") {
		t.Errorf("Load: %v", err)
	}
}

func TestLoadMissingKernel(t *testing.T) {
	withPTX(t, "some")
	l := &launcher{missing: "gather_4"}
	if _, err := Load(l); err == nil || !strings.Contains(err.Error(), "gather_4") || l.closed != 1 {
		t.Errorf("Load: %v, %d modules closed, want an error that names gather_4, and 1", err, l.closed)
	}
}

func TestCloseUnloads(t *testing.T) {
	withPTX(t, "some")
	l := &launcher{}
	set, err := Load(l)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(set.Close(), set.Close()); err != nil || l.closed != 1 {
		t.Errorf("Close: %v, %d modules closed", err, l.closed)
	}
}

// TestLaunches checks which kernel and which grid a call gets.
func TestLaunches(t *testing.T) {
	withPTX(t, "some")
	l := &launcher{}
	set, err := Load(l)
	if err != nil {
		t.Fatal(err)
	}
	normalize := func(dt dtype.DType, n, c, h, w int, dst, src device.Ptr) error {
		return set.Normalize(stream{}, Normalize{Dst: dst, DType: dt, Src: src, N: n, C: c, H: h, W: w})
	}
	gather := func(dst, src device.Ptr, n, blockBytes int64) error {
		return set.Gather(stream{}, Blocks{Dst: dst, Src: src, Index: 1 << 40, N: n, Total: 10, BlockBytes: blockBytes})
	}
	spans := func(unit, units int64, blocks int) error {
		return set.CopySpans(stream{}, SpanList{Entries: 1 << 40, N: 3, Units: units, Unit: unit, Blocks: blocks})
	}
	augment := func(dt dtype.DType, n, c, h, w int, mix device.Ptr) error {
		return set.Normalize(stream{}, Normalize{Dst: 1 << 20, DType: dt, Src: 1 << 50, Mix: mix, N: n, C: c, H: h, W: w})
	}
	deep := func(dt dtype.DType, c int, mix device.Ptr) error {
		return set.Normalize(stream{}, Normalize{Dst: 1 << 20, DType: dt, Src: 1 << 50, SrcType: dtype.U16, Mix: mix, N: 2, C: c, H: 224, W: 224})
	}
	const dst, src = 1 << 20, 1 << 50
	for _, c := range []struct {
		err  error
		want string // name, blocks in x and y
	}{
		{normalize(dtype.F32, 2, 3, 224, 224, dst, src), "normalize3_f32 49x2"},
		{normalize(dtype.F32, 2, 3, 224, 224, dst, src+4), "normalize3_f32 49x2"},
		{normalize(dtype.F32, 2, 3, 224, 224, dst, src+2), "normalize_f32 196x2"},
		{normalize(dtype.F32, 2, 3, 224, 224, dst+4, src), "normalize_f32 196x2"},
		{normalize(dtype.F32, 2, 3, 3, 3, dst, src), "normalize_f32 1x2"},
		{normalize(dtype.F32, 2, 4, 224, 224, dst, src), "normalize_f32 196x2"},
		{normalize(dtype.F16, 1, 3, 2, 4, dst, src+8), "normalize3_f16 1x1"},
		{normalize(dtype.F16, 1, 3, 2, 4, dst, src+4), "normalize_f16 1x1"},
		{normalize(dtype.BF16, 1, 3, 2, 2, dst, src), "normalize_bf16 1x1"},
		{normalize(dtype.BF16, 70000, 3, 64, 64, dst, src), "normalize3_bf16 2x65535"},
		{normalize(dtype.U8, 1, 3, 4, 4, dst, src+16), "normalize3_u8 1x1"},
		{normalize(dtype.U8, 1, 3, 4, 4, dst, src+8), "normalize_u8 1x1"},
		{deep(dtype.F32, 3, 0), "normalize_f32_from_u16 196x2"},
		{deep(dtype.U16, 1, 0), "normalize_u16_from_u16 196x2"},
		{deep(dtype.BF16, 3, 1<<60), "augment_bf16_from_u16 25x2"},
		{augment(dtype.F32, 2, 3, 224, 224, 1<<60), "augment_f32 25x2"},
		{augment(dtype.U8, 70000, 1, 3, 3, 1<<60), "augment_u8 1x65535"},
		{augment(dtype.F16, 2, 3, 224, 224, 0), "normalize3_f16 25x2"},
		{set.Cast(stream{}, dst, dtype.F16, src, dtype.F32, 257), "cast_f16 2x1"},
		{set.Cast(stream{}, dst, dtype.F16, src, dtype.F32, 1<<45), "cast_f16 1073741824x1"},
		{set.Combine(stream{}, Combine{Op: Linear, Type: dtype.F32, Dst: dst, X: src, N: 257}), "combine_f32 2x1"},
		{set.Combine(stream{}, Combine{Op: Product, Type: dtype.BF16, Dst: dst, X: dst, Y: src, N: 1}), "combine_bf16 1x1"},
		{set.Reduce(stream{}, Reduce{Op: Sum, Type: dtype.F32, Lanes: dst, X: src, N: 257}), "reduce_f32 2x1"},
		{set.Reduce(stream{}, Reduce{Op: Dot, Type: dtype.BF16, Lanes: dst, X: src, Y: src, N: 1 << 40}), "reduce_bf16 128x1"},
		{set.Fill(stream{}, dst, 4, 0, 1024), "fill 1x1"},
		{set.Fill(stream{}, dst, 4, 0, 1025), "fill 2x1"},
		{gather(dst, src, 10, 16<<10), "gather_16 10x1"},
		{gather(dst, src, 10, 16<<10+16), "gather_16 11x1"},
		{gather(dst, src+8, 10, 4096), "gather_4 10x1"},
		{gather(dst+1, src, 10, 1024), "gather_1 10x1"},
		{gather(dst, src, 1, 30), "gather_1 1x1"},
		{spans(16, 2048*7, 0), "copy_spans_16 7x1"},
		{spans(16, 2048*7+1, 0), "copy_spans_16 8x1"},
		{spans(16, 1<<40, 0), "copy_spans_16 80x1"},
		{spans(4, 1<<45, 24), "copy_spans_4 24x1"},
		{spans(1, 1, 24), "copy_spans_1 1x1"},
	} {
		if c.err != nil {
			t.Errorf("%s: %v", c.want, c.err)
			continue
		}
		g := l.launches[0]
		l.launches = l.launches[1:]
		if got := fmt.Sprintf("%s %dx%d", g.name, g.grid.BlocksX, max(g.grid.BlocksY, 1)); got != c.want || g.grid.Threads != 256 {
			t.Errorf("%s of %d threads, want %s", got, g.grid.Threads, c.want)
		}
	}
}

func TestSourceHasEveryKernel(t *testing.T) {
	source := ""
	files, err := sources.ReadDir(".")
	testkit.OK(t, err)
	for _, f := range files {
		text, err := sources.ReadFile(f.Name())
		testkit.OK(t, err)
		source += string(text)
	}
	for _, name := range names() {
		if found := regexp.MustCompile(`(?m)^([A-Z0-9]+\(|extern "C" __global__ void (?:__launch_bounds__\(\d+\) )?)`+name+`\b`).FindAllString(source, -1); len(found) != 1 {
			t.Errorf("the CUDA sources define %s %d times", name, len(found))
		}
	}
}

// TestLaunchesInTurn checks calls that launch more than one kernel.
func TestLaunchesInTurn(t *testing.T) {
	withPTX(t, "some")
	l := &launcher{}
	set, err := Load(l)
	if err != nil {
		t.Fatal(err)
	}
	table, err := NewResampleTable(100, 64)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := table.Add(onePicture(100, 64)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(
		set.Resample(stream{}, 1<<20, table, 1<<40),
		set.Normalize(stream{}, Normalize{Dst: 1 << 20, DType: dtype.F16, Src: 1 << 50, Colours: 1 << 40, N: 3, C: 3, H: 64, W: 64}),
		set.Normalize(stream{}, Normalize{Dst: 1 << 20, DType: dtype.U16, Src: 1 << 50, SrcType: dtype.U16, Colours: 1 << 40, N: 3, C: 3, H: 64, W: 64}),
	); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, g := range l.launches {
		got = append(got, fmt.Sprintf("%s %dx%d", g.name, g.grid.BlocksX, g.grid.BlocksY))
	}
	want := []string{"resample_weights 1x6", "resample 8x3", "colour_sums 2x3", "augment_f16 2x3",
		"colour_sums_from_u16 2x3", "augment_u16_from_u16 2x3"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// onePicture is stretched to a sample of that size.
func onePicture(width, height int) Picture {
	return Picture{Src: 1 << 50, Pitch: 30, Width: 10, Height: 10, X: Axis{Length: 10, Out: width}, Y: Axis{Length: 10, Out: height}}
}

// TestEntryBytes: the entries are as long as package and kernels take them to
// be.
func TestEntryBytes(t *testing.T) {
	if n := unsafe.Sizeof(resampleEntry{}); n != PictureBytes {
		t.Errorf("a resampleEntry has %d bytes, want %d", n, PictureBytes)
	}
	table, err := NewResampleTable(3, 3)
	if err != nil {
		t.Fatal(err)
	}
	if err := table.Add(onePicture(3, 3)); err != nil || len(table.Bytes()) != PictureBytes {
		t.Errorf("a table of one picture has %d bytes, want %d: %v", len(table.Bytes()), PictureBytes, err)
	}
}

// TestCopyPerThread: grids are made for what a thread moves at a time.
func TestCopyPerThread(t *testing.T) {
	if want := fmt.Sprintf("copy_spans<T, %d, ", copyPerThread); !strings.Contains(spansSource, want) {
		t.Errorf("spans.cuh has no %q", want)
	}
	if want := fmt.Sprintf("copy_runs<%d, ", copyPerThread); !strings.Contains(pairsSource, want) {
		t.Errorf("pairs.cuh has no %q", want)
	}
}

// TestResampleTile: grids are made for the tiles that resample.cuh makes.
func TestResampleTile(t *testing.T) {
	if want := fmt.Sprintf("SIDE = %d,", resampleTile); !strings.Contains(resampleSource, want) {
		t.Errorf("resample.cuh has no %q", want)
	}
}

// TestPTX checks the compiled code against what the launches assume of it.
func TestPTX(t *testing.T) {
	if len(ptx) == 0 {
		t.Skip("kernels.ptx is empty")
	}
	text := string(ptx)
	for _, line := range []string{"\n.version 7.0\n", "\n.target sm_75\n", "\n.address_size 64\n"} {
		if !strings.Contains("\n"+text, line) {
			t.Errorf("no line %q", strings.TrimSpace(line))
		}
	}
	params := launchedParams(t)
	entries := testkit.PTXEntries(text)
	for name, entry := range entries {
		if _, ok := params[name]; !ok {
			t.Errorf("%s is never launched; add a call to launchedParams", name)
		} else if entry.ParamBytes != params[name] {
			t.Errorf("%s takes %d bytes of parameters, and is launched with %d", name, entry.ParamBytes, params[name])
		}
		if strings.Contains(entry.Body, "fma.") {
			t.Errorf("%s fuses product and sum", name)
		}
		if strings.Contains(entry.Body, ".local") {
			t.Errorf("%s uses local memory", name)
		}
	}
	for _, name := range names() {
		if _, ok := entries[name]; !ok {
			t.Errorf("kernels.ptx lacks %s; go generate ./kernels compiles it, where nvcc is", name)
		}
	}
	for name := range entries {
		if !slices.Contains(names(), name) {
			t.Errorf("%s is in kernels.ptx but not in names()", name)
		}
	}
}

// launchedParams launches every kernel and returns its bytes of parameters.
func launchedParams(t *testing.T) map[string]int {
	l := &launcher{}
	set, err := Load(l)
	if err != nil {
		t.Fatal(err)
	}
	const dst, src, index = 1 << 20, 1 << 50, 1 << 40
	var errs []error
	for _, from := range sampleTypes {
		for _, dt := range normalizeTypes(from) {
			n := Normalize{Dst: dst, DType: dt, Src: src, SrcType: from, N: 1, C: 4, H: 4, W: 4}
			errs = append(errs, set.Normalize(stream{}, n))
			n.C = 3
			errs = append(errs, set.Normalize(stream{}, n))
			n.Colours = index
			errs = append(errs, set.Normalize(stream{}, n))
		}
	}
	table, err := NewResampleTable(4, 4)
	if err != nil {
		t.Fatal(err)
	}
	errs = append(errs, table.Add(onePicture(4, 4)), set.Resample(stream{}, dst, table, index))
	for i, to := range castTypes {
		errs = append(errs, set.Cast(stream{}, dst, to, src, castTypes[(i+1)%len(castTypes)], 1))
	}
	errs = append(errs, set.Fill(stream{}, dst, 1, 0, 1))
	for _, t := range arithmeticTypes {
		errs = append(errs, set.Combine(stream{}, Combine{Op: Abs, Type: t, Dst: dst, X: src, N: 1}),
			set.Reduce(stream{}, Reduce{Op: Sum, Type: t, Lanes: dst, X: src, N: 1}))
	}
	for _, unit := range moveUnits {
		b := Blocks{Dst: dst, Src: src, Index: index, N: 1, Total: 1, BlockBytes: unit}
		errs = append(errs, set.Gather(stream{}, b), set.Scatter(stream{}, b))
	}
	for _, unit := range spanUnits {
		errs = append(errs, set.CopySpans(stream{}, SpanList{Entries: index, N: 1, Units: 1, Unit: unit}))
	}
	errs = append(errs, set.CopyPairs(stream{}, PairList{Dst: dst, Src: src, Pairs: index, N: 1, Bytes: 16}))
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	params := map[string]int{}
	for _, g := range l.launches {
		params[g.name] = g.argBytes
	}
	return params
}
