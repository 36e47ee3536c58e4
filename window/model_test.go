package window_test

import (
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/nifti"
	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/host"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/host"
	"github.com/pinion-gpu/pinion/window"
)

// session is a model of n windows whose classes are the first channel and its square, with a
// scale that stays on the device.
func session(t *testing.T, n, channels int, win []int, scale float32) *step.Session {
	dev := testkit.Must(device.Open("host:64MiB"))(t)
	t.Cleanup(func() { testkit.OK(t, dev.Close()) })
	exec := testkit.Must(host.Open(dev))(t)
	t.Cleanup(func() { testkit.OK(t, exec.Close()) })
	memory := testkit.Must(step.OpenMemory(dev, nil))(t)
	t.Cleanup(func() { testkit.OK(t, memory.Close()) })
	g := graph.New("model")
	must := func(v graph.Value, err error) graph.Value { return testkit.Must(v, err)(t) }
	s := must(g.Parameter("scale", graph.MakeShape(dtype.F32, 1)))
	x := must(g.Parameter("windows", graph.MakeShape(dtype.F32, append([]int{n, channels}, win...)...)))
	starts, limits := make([]int, 2+len(win)), append([]int{n, 1}, win...)
	first := must(g.Slice(x, starts, limits, nil))
	first = must(g.Binary(graph.Mul, first, must(g.BroadcastInDim(s, first.Shape().Dims, []int{0}))))
	both := must(g.Concatenate(1, first, must(g.Binary(graph.Mul, first, first))))
	testkit.OK(t, g.SetOutputs(both))
	kept := testkit.Must(memory.Put(binary.LittleEndian.AppendUint32(nil, math.Float32bits(scale)), s.Shape()))(t)
	t.Cleanup(func() { testkit.OK(t, kept.Free()) })
	out := testkit.Must(step.OpenSession(g, exec, step.SessionOptions{Tensors: []*step.Tensor{kept, nil}}))(t)
	t.Cleanup(func() { testkit.OK(t, out.Close()) })
	return out
}

// A model on a device gives what a function gives, also where the last batch of a row is not
// full.
func TestModel(t *testing.T) {
	size, win := []int{9, 11}, []int{4, 5}
	in := &window.Array{Size: size, Data: values(2 * 9 * 11)}
	p := testkit.Must(window.NewPlan(size, window.Options{Window: win, Overlap: []float64{0.5}, Batch: 2, Blend: window.Gaussian}))(t)
	want, got := &window.Array{Size: size}, &window.Array{Size: size}
	testkit.OK(t, p.Run(t.Context(), 2, in, func(_ context.Context, windows []float32, n int) (out []float32, err error) {
		for i := range n {
			first := windows[2*20*i:][:20]
			for _, v := range first {
				out = append(out, 3*v)
			}
			for _, v := range first {
				out = append(out, 3*v*(3*v))
			}
		}
		return out, nil
	}, want))
	for _, n := range []int{2, 3} {
		s := session(t, n, 2, win, 3)
		testkit.OK(t, testkit.Must(p.Model(s))(t).Run(t.Context(), in, got))
		if !slices.Equal(got.Data, want.Data) {
			t.Errorf("%d windows at once: other results", n)
		}
		got.Data = nil
	}
	_, err := p.Model(session(t, 1, 2, win, 3))
	testkit.WantError(t, "too few", err, window.ErrArgument, "the model takes 1 windows, and the plan has batches of 2")
	_, err = p.Model(session(t, 2, 2, []int{5, 5}, 3))
	testkit.WantError(t, "other windows", err, window.ErrArgument, "a model of [f32[2,2,5,5]] makes [f32[2,2,5,5]]", "windows are [4 5]")
}

// A model may write over its windows, or give all its results in one place.
func TestInPlace(t *testing.T) {
	size := []int{30, 21, 18}
	in := &window.Array{Size: size, Data: values(30 * 21 * 18)}
	p := testkit.Must(window.NewPlan(size, window.Options{Window: []int{8, 8, 8}, Overlap: []float64{0.5}, Batch: 2}))(t)
	one := make([]float32, 2*512)
	for what, predict := range map[string]window.Predict{
		"in place": func(_ context.Context, windows []float32, _ int) ([]float32, error) {
			for i := range windows {
				windows[i] *= 2
			}
			return windows, nil
		},
		"one place": func(_ context.Context, windows []float32, _ int) ([]float32, error) {
			for i, v := range windows {
				one[i] = 2 * v
			}
			return one[:len(windows)], nil
		},
	} {
		out := &window.Array{Size: size}
		testkit.OK(t, p.Run(t.Context(), 1, in, predict, out))
		for i, v := range out.Data {
			if math.Abs(float64(v-2*in.Data[i])) > 1e-6 {
				t.Fatalf("%s: element %d is %v, want %v", what, i, v, 2*in.Data[i])
			}
		}
	}
}

// Labels are those of the largest class, the first of equal ones.
func TestLabels(t *testing.T) {
	size := []int{2, 3}
	p := testkit.Must(window.NewPlan(size, window.Options{Window: []int{2, 3}}))(t)
	out, nan := &window.Array{Size: size}, float32(math.NaN())
	sink := p.Labels(out)
	testkit.OK(t, sink.WriteRows(t.Context(), 0, 1, []float32{1, 2, -3, 1, 5, -2, 0, 5, 7}))
	testkit.OK(t, sink.WriteRows(t.Context(), 1, 1, []float32{-1, 0, 0, 1, nan, nan, 2, 5, nan}))
	if want := []float32{0, 1, 2, 2, 1, 1}; !slices.Equal(out.Data, want) {
		t.Errorf("%v, want %v", out.Data, want)
	}
	testkit.WantError(t, "half a class", sink.WriteRows(t.Context(), 0, 1, make([]float32, 4)), window.ErrArgument)
}

// A segmentation goes from file to file.
func TestNIfTI(t *testing.T) {
	dir := t.TempDir()
	size := []int{12, 7, 9}
	from := filepath.Join(dir, "scan.nii.gz")
	testkit.OK(t, writeNIfTI(from, size, values(12*7*9)))
	v := testkit.Must(nifti.OpenVolume(from))(t)
	defer v.Close()
	p := testkit.Must(window.NewPlan(v.Size(), window.Options{Window: []int{4, 4, 4}, Overlap: []float64{0.5}, Batch: 3}))(t)
	to := filepath.Join(dir, "labels.nii.gz")
	w := testkit.Must(v.Create(to, 1, dtype.U8))(t)
	defer w.Discard()
	model := predict(1, 64)
	testkit.OK(t, p.Run(t.Context(), v.Channels(), v, model, p.Labels(w)))
	testkit.OK(t, w.Commit())

	array := &window.Array{Size: size}
	testkit.OK(t, p.Run(t.Context(), 1, &window.Array{Size: size, Data: values(12 * 7 * 9)}, model, p.Labels(array)))
	labels := testkit.Must(nifti.OpenVolume(to))(t)
	defer labels.Close()
	got := make([]float32, len(array.Data))
	testkit.OK(t, labels.ReadRows(t.Context(), 0, 12, got))
	if !slices.Equal(got, array.Data) || !slices.Contains(got, 1) || !slices.Contains(got, 0) {
		t.Error("other labels")
	}
	// A model that fails leaves no file.
	failed := errors.New("no memory")
	other := filepath.Join(dir, "other.nii")
	again := testkit.Must(nifti.OpenVolume(from))(t)
	defer again.Close()
	w = testkit.Must(again.Create(other, 1, dtype.F32))(t)
	err := p.Run(t.Context(), 1, again, func(context.Context, []float32, int) ([]float32, error) { return nil, failed }, w)
	testkit.WantError(t, "the run", err, failed)
	testkit.WantError(t, "a file without rows", w.Commit(), dataset.ErrArgument, "0 of 12 rows")
	testkit.OK(t, w.Discard())
	if files := testkit.Must(filepath.Glob(filepath.Join(dir, "*")))(t); len(files) != 2 {
		t.Errorf("%q", files)
	}
}

// writeNIfTI writes float32 voxels into a compressed file.
func writeNIfTI(path string, size []int, data []float32) error {
	head := make([]byte, 352)
	binary.LittleEndian.PutUint32(head, 348)
	for i, d := range append([]int{len(size)}, size[2], size[1], size[0]) {
		binary.LittleEndian.PutUint16(head[40+2*i:], uint16(d))
	}
	binary.LittleEndian.PutUint16(head[70:], 16)
	binary.LittleEndian.PutUint16(head[72:], 32)
	binary.LittleEndian.PutUint32(head[108:], math.Float32bits(352))
	copy(head[344:], "n+1\x00")
	for _, v := range data {
		head = binary.LittleEndian.AppendUint32(head, math.Float32bits(v))
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	z := gzip.NewWriter(f)
	_, err = z.Write(head)
	return errors.Join(err, z.Close(), f.Close())
}

// A model that ends its goroutine ends the run.
func TestGoexit(t *testing.T) {
	size := []int{16, 16}
	p := testkit.Must(window.NewPlan(size, window.Options{Window: []int{4, 4}}))(t)
	err := p.Run(t.Context(), 1, &window.Array{Size: size, Data: values(256)}, func(context.Context, []float32, int) ([]float32, error) {
		runtime.Goexit()
		return nil, nil
	}, &window.Array{Size: size})
	if err == nil || !strings.Contains(err.Error(), "exited") {
		t.Error(err)
	}
}
