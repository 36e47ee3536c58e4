package window_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/window"
)

// monai is a case of testdata/monai.json, which MONAI made.
type monai struct {
	Size, Roi      []int
	Overlap, Sigma []float64
	Mode, Padding  string
	Value          float32
	Channels       int
	Batch          int
	Want           []float32
}

func (c monai) options() window.Options {
	return window.Options{
		Window: c.Roi, Overlap: c.Overlap, Sigma: c.Sigma, Fill: c.Value, Batch: c.Batch,
		Blend:   map[string]window.Blend{"gaussian": window.Gaussian}[c.Mode],
		Padding: map[string]window.Padding{"reflect": window.Reflect, "replicate": window.Replicate, "circular": window.Circular}[c.Padding],
	}
}

// values are those of testdata/monai.py.
func values(n int) []float32 {
	list := make([]float32, n)
	for i := range list {
		list[i] = float32(float64((i*7919+13)%1000)/1000 - 0.5)
	}
	return list
}

// predict is the model of testdata/monai.py: twice the first channel and a ramp, and its
// square.
func predict(channels, inside int) window.Predict {
	return func(_ context.Context, in []float32, n int) ([]float32, error) {
		out := make([]float32, 0, 2*n*inside)
		for i := range n {
			first := in[i*channels*inside:][:inside]
			for k, v := range first {
				out = append(out, v*2+float32(k)/float32(inside))
			}
			for _, v := range first {
				out = append(out, v*v)
			}
		}
		return out, nil
	}
}

func product(list []int) int {
	n := 1
	for _, v := range list {
		n *= v
	}
	return n
}

// Results are MONAI's.
func TestMONAI(t *testing.T) {
	var cases []monai
	testkit.OK(t, json.Unmarshal(testkit.Must(os.ReadFile("testdata/monai.json"))(t), &cases))
	for _, c := range cases {
		t.Run(fmt.Sprintf("%v in %v", c.Roi, c.Size), func(t *testing.T) {
			channels := max(c.Channels, 1)
			p := testkit.Must(window.NewPlan(c.Size, c.options()))(t)
			out := &window.Array{Size: c.Size}
			in := &window.Array{Size: c.Size, Data: values(channels * product(c.Size))}
			testkit.OK(t, p.Run(t.Context(), channels, in, predict(channels, product(p.Window())), out))
			if len(out.Data) != len(c.Want) {
				t.Fatalf("%d numbers, want %d", len(out.Data), len(c.Want))
			}
			for i, v := range out.Data {
				if d := math.Abs(float64(v - c.Want[i])); !(d < 1e-6) {
					t.Fatalf("number %d is %v, and MONAI's %v", i, v, c.Want[i])
				}
			}
		})
	}
}

// A model that looks at each element alone gives the same as without windows, wherever they
// lie, however many are predicted at once.
func TestRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 150 {
		var size, win []int
		var overlap []float64
		for range 1 + rng.IntN(4) {
			size, win, overlap = append(size, 1+rng.IntN(9)), append(win, rng.IntN(10)), append(overlap, 0.95*rng.Float64())
		}
		o := window.Options{Window: win, Overlap: overlap, Blend: window.Blend(rng.IntN(2)), Padding: window.Padding(rng.IntN(4)), Batch: rng.IntN(5), Sigma: []float64{0.05 + rng.Float64()}}
		p, err := window.NewPlan(size, o)
		if errors.Is(err, window.ErrArgument) && o.Padding != window.Fill {
			continue // too small to be mirrored
		}
		testkit.OK(t, err)
		channels := 1 + rng.IntN(3)
		in := &window.Array{Size: size, Data: values(channels * product(size))}
		out := &window.Array{Size: size}
		inside := product(p.Window())
		windows := 0
		testkit.OK(t, p.Run(t.Context(), channels, in, func(_ context.Context, data []float32, n int) ([]float32, error) {
			windows += n
			if n < 1 || n > max(o.Batch, 1) || len(data) != n*channels*inside {
				return nil, fmt.Errorf("%d windows in %d numbers", n, len(data))
			}
			sums := make([]float32, n*2*inside)
			for i := range n {
				for k := range inside {
					for c := range channels {
						sums[2*i*inside+k] += data[(i*channels+c)*inside+k]
					}
					sums[(2*i+1)*inside+k] = -sums[2*i*inside+k]
				}
			}
			return sums, nil
		}, out))
		if windows != p.Windows() {
			t.Errorf("%v: %d were predicted", p, windows)
		}
		for k := range product(size) {
			want := float32(0)
			for c := range channels {
				want += in.Data[c*product(size)+k]
			}
			for class, v := range []float32{want, -want} {
				if got := out.Data[class*product(size)+k]; math.Abs(float64(got-v)) > 1e-5 {
					t.Fatalf("%v, %+v: element %d of class %d is %v, want %v", p, o, k, class, got, v)
				}
			}
		}
	}
}

// watched is a volume that is never held: it counts the rows that are on their way.
type watched struct {
	window.Array
	mu         sync.Mutex
	read, most int
	wrote      int
	failAt     int
}

var errBroken = errors.New("the disk is gone")

func (w *watched) ReadRows(ctx context.Context, from, rows int, data []float32) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if from != w.read {
		return fmt.Errorf("rows from %d on are read behind %d", from, w.read)
	}
	w.read += rows
	w.most = max(w.most, w.read-w.wrote)
	if w.failAt > 0 && w.read >= w.failAt {
		return errBroken
	}
	return w.Array.ReadRows(ctx, from, rows, data)
}

func (w *watched) WriteRows(_ context.Context, from, rows int, _ []float32) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if from != w.wrote {
		return fmt.Errorf("rows from %d on are written behind %d", from, w.wrote)
	}
	w.wrote += rows
	return nil
}

// Rows are read once, in order, and written as soon as no window touches them any more.
func TestSlabs(t *testing.T) {
	size := []int{100, 6, 5}
	w := &watched{Array: window.Array{Size: size, Data: values(product(size))}}
	p := testkit.Must(window.NewPlan(size, window.Options{Window: []int{8, 4, 4}, Overlap: []float64{0.5}}))(t)
	testkit.OK(t, p.Run(t.Context(), 1, w, predict(1, product(p.Window())), w))
	if w.read != 100 || w.wrote != 100 {
		t.Errorf("%d rows were read, and %d written", w.read, w.wrote)
	}
	if most := 8 + 2*4; w.most > most { // a window, and the rows of the next ones
		t.Errorf("%d rows were on their way, want no more than %d", w.most, most)
	}
}

// Whoever fails, the error says where, and everything ends.
func TestFailures(t *testing.T) {
	size := []int{20, 6}
	o := window.Options{Window: []int{4, 4}, Batch: 2}
	whole := func() *window.Array { return &window.Array{Size: size, Data: values(product(size))} }
	p := testkit.Must(window.NewPlan(size, o))(t)
	model := predict(1, 16)
	calls := 0
	ended, cancel := context.WithCancel(t.Context())
	defer cancel()
	nan := whole()
	nan.Data[7*6+2] = float32(math.NaN())
	for _, c := range []struct {
		name     string
		ctx      context.Context
		channels int
		in       window.Source
		model    window.Predict
		out      window.Sink
		is       error
		want     string
	}{
		{"source", t.Context(), 1, &watched{Array: *whole(), failAt: 10}, model, &window.Array{Size: size}, errBroken, "window: reading rows 7 to 10: "},
		{"sink", t.Context(), 1, whole(), model, &watched{wrote: 9}, nil, "window: writing rows 0 to 3: "},
		{"model", t.Context(), 1, whole(), func(context.Context, []float32, int) ([]float32, error) {
			if calls++; calls == 3 {
				return nil, errBroken
			}
			return make([]float32, 32), nil
		}, &window.Array{Size: size}, errBroken, "window: predicting 2 windows from [6 0] on: "},
		{"numbers", t.Context(), 1, whole(), func(context.Context, []float32, int) ([]float32, error) { return make([]float32, 33), nil }, &window.Array{Size: size}, window.ErrArgument, "are 33 numbers, no multiple of 32"},
		{"classes", t.Context(), 1, whole(), func(_ context.Context, _ []float32, n int) ([]float32, error) {
			calls++
			return make([]float32, 16*n*calls), nil
		}, &window.Array{Size: size}, window.ErrArgument, "classes, and of"},
		{"context", ended, 1, whole(), func(context.Context, []float32, int) ([]float32, error) {
			cancel()
			return make([]float32, 32), nil
		}, &window.Array{Size: size}, context.Canceled, "window: "},
		{"NaN", t.Context(), 1, nan, model, &window.Array{Size: size}, window.ErrNotFinite, "the volume has NaN at [7 2]"},
		{"channels", t.Context(), 0, whole(), model, &window.Array{Size: size}, window.ErrArgument, "0 channels"},
		{"volume", t.Context(), 2, whole(), model, &window.Array{Size: size}, window.ErrArgument, "rows 0 to 4 of 2 channels of [20 6], and 120 numbers"},
	} {
		testkit.NoLeaks(t)
		err := p.Run(c.ctx, c.channels, c.in, c.model, c.out)
		if err == nil || !strings.Contains(err.Error(), c.want) || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	o.AllowNotFinite = true
	out := &window.Array{Size: size}
	testkit.OK(t, testkit.Must(window.NewPlan(size, o))(t).Run(t.Context(), 1, nan, model, out))
	if n := len(slices.DeleteFunc(slices.Clone(out.Data[:120]), func(v float32) bool { return v == v })); n != 1 {
		t.Errorf("%d elements are NaN", n)
	}
}

func TestPlan(t *testing.T) {
	for want, c := range map[string]struct {
		size []int
		o    window.Options
	}{
		"a volume of []":           {nil, window.Options{}},
		"a volume of [0]":          {[]int{0}, window.Options{Window: []int{1}}},
		"a window of [1 2]":        {[]int{4}, window.Options{Window: []int{1, 2}}},
		"overlap 1 must be":        {[]int{4}, window.Options{Window: []int{2}, Overlap: []float64{1}}},
		"sigma 0 above 0":          {[]int{4}, window.Options{Window: []int{2}, Sigma: []float64{0}}},
		"for 3 axes":               {[]int{4, 4, 4}, window.Options{Window: []int{2, 2, 2}, Overlap: []float64{0.5, 0.5}}},
		"a batch of -1":            {[]int{4}, window.Options{Window: []int{2}, Batch: -1}},
		"blend 7":                  {[]int{4}, window.Options{Window: []int{2}, Blend: 7}},
		"too few for 2 of padding": {[]int{2}, window.Options{Window: []int{6}, Padding: window.Reflect}},
		"too few for 3 of padding": {[]int{2}, window.Options{Window: []int{8}, Padding: window.Circular}},
	} {
		_, err := window.NewPlan(c.size, c.o)
		testkit.WantError(t, want, err, window.ErrArgument, want)
	}
	p := testkit.Must(window.NewPlan([]int{384, 384, 384}, window.Options{Window: []int{128, 128, 128}, Overlap: []float64{0.5}, Blend: window.Gaussian}))(t)
	if got := p.String(); got != "125 windows of [128 128 128] over [384 384 384]" {
		t.Error(got)
	}
	// The sums of 100 classes over the rows of a window, and nearly as much on its way out.
	if n := p.Bytes(1, 100); n < 14<<30 || n > 16<<30 {
		t.Errorf("%d bytes", n)
	}
}
