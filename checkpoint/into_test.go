package checkpoint

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/safetensors"
)

// Tensors and parts of them, also of the same, go where the caller says and
// nowhere else.
func TestLoadInto(t *testing.T) {
	testkit.NoLeaks(t)
	r := rand.New(rand.NewPCG(2, 7))
	for round := range 20 {
		f := open(t, 1)
		m := write(t, 1+r.Int64N(400_000), some(r, r.IntN(40))...)
		o := Options{Floats: []dtype.DType{0, dtype.F16, dtype.F32, dtype.F64}[round%4]}
		if r.IntN(2) == 0 {
			o.limits = limits{step: 1 + r.Int64N(100_000), small: 1 + r.Int64N(20_000), gap: r.Int64N(2000), group: 1 + r.Int64N(50_000),
				staging: 8 + r.Int64N(50_000), parallel: 1 + r.IntN(4)}
		}
		type place struct {
			at   int64
			want []byte
		}
		var into []Into
		var places []place
		size, total := int64(16), int64(0)
		add := func(part safetensors.Tensor) {
			stored, _ := m.ck.Find(part.Name)
			p := o.piece(part)
			// What comes before it, cast, and it.
			whole := data(stored, p.dtype(), m.seeds[part.Name])
			from := (part.Offset - stored.Offset) * 8 / stored.DType.Bits() * p.dtype().Bits() / 8
			into = append(into, Into{part, device.Ptr(size)})
			places = append(places, place{size, whole[from:][:p.size]})
			size += (p.size + 16 + 7) &^ 7
			total += part.Bytes
		}
		for _, x := range m.ck.Tensors() {
			add(x)
			if len(x.Shape) > 0 && r.IntN(2) == 0 {
				from := r.Int64N(x.Shape[0] + 1)
				add(testkit.Must(x.Range(from, from+r.Int64N(x.Shape[0]-from+1)))(t))
			}
		}
		r.Shuffle(len(into), func(i, j int) { into[i], into[j], places[i], places[j] = into[j], into[i], places[j], places[i] })
		memory := testkit.Must(f.dev.Alloc(size))(t)
		before := bytes.Repeat([]byte{0xa5}, int(size))
		testkit.OK(t, f.targets[0].Engine.H2D(t.Context(), memory, before))
		for i := range into {
			into[i].Ptr = memory.Add(int64(into[i].Ptr))
		}
		last := int64(-1)
		o.Progress = func(done, _ int64) { last = done }
		report, err := LoadInto(t.Context(), into, o, f.targets[0])
		testkit.OK(t, err)
		want := bytes.Clone(before)
		for _, p := range places {
			copy(want[p.at:], p.want)
		}
		got := make([]byte, size)
		testkit.OK(t, f.targets[0].Engine.D2H(t.Context(), got, memory))
		if !bytes.Equal(got, want) {
			t.Fatalf("round %d: other bytes", round)
		}
		if report.Tensors != len(into) || report.Bytes != total || last != total {
			t.Errorf("%+v, progress %d; want %d tensors, %d bytes", report, last, len(into), total)
		}
		testkit.OK(t, f.dev.Free(memory))
	}
}

func TestLoadIntoErrors(t *testing.T) {
	testkit.NoLeaks(t)
	f := open(t, 1)
	m := write(t, 0, tensor("a", safetensors.F32, 1000))
	a, _ := m.ck.Find("a")
	memory := testkit.Must(f.dev.Alloc(8000))(t)
	defer f.dev.Free(memory)
	for says, into := range map[string]Into{
		`"a" has 4000 bytes and no memory`: {Tensor: a},
		`"b" is in no file`:                {tensor("b", safetensors.U8, 1), memory},
	} {
		_, err := LoadInto(t.Context(), []Into{into}, Options{}, f.targets[0])
		testkit.WantError(t, says, err, ErrArgument, says)
	}
	_, err := LoadInto(t.Context(), nil, Options{}, Target{})
	testkit.WantError(t, "engine", err, ErrArgument, "has no Engine")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := LoadInto(ended, []Into{{a, memory}}, Options{}, f.targets[0]); err != context.Canceled {
		t.Errorf("%v, want the context's error", err)
	}
	small := testkit.Must(device.Open(fmt.Sprintf("host:%d", 1<<20)))(t)
	defer small.Close()
	big := write(t, 0, tensor("a", safetensors.F64, 130_000))
	into := Into{big.ck.Tensors()[0], testkit.Must(small.Alloc(130_000 * 2))(t)}
	_, err = LoadInto(t.Context(), []Into{into}, Options{Floats: dtype.F16}, Target{Engine: f.engine(small)})
	testkit.WantError(t, "staging", err, device.ErrOutOfMemory, "casting needs")
}
