package checkpoint

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/float16"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/safetensors"
	"github.com/pinion-gpu/pinion/transfer"
)

// fixture is a device, or the same one several times, and engines on it.
type fixture struct {
	testing.TB
	dev     device.Device
	targets []Target
}

func open(t testing.TB, targets int) *fixture {
	t.Helper()
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // no model of the user's own
	f := &fixture{TB: t, dev: devicetest.Open(t)}
	for range targets {
		f.targets = append(f.targets, Target{Engine: f.engine(f.dev)})
	}
	f.balanced()
	return f
}

func (f *fixture) engine(dev device.Device) *transfer.Engine {
	f.Helper()
	e := testkit.Must(transfer.New(dev, transfer.Options{Copiers: 3, Slots: 2, SlotBytes: 64 << 10, FileWorkers: 2, StageAbove: 16 << 10}))(f)
	f.Cleanup(func() {
		if err := e.Close(); err != nil {
			f.Error(err)
		}
	})
	return e
}

// balanced checks at the end that all memory of a host device was freed.
func (f *fixture) balanced() {
	if _, ok := device.As[device.Caller](f.dev); !ok {
		return // others may allocate too
	}
	before := testkit.Must(f.dev.Memory())(f)
	f.Cleanup(func() {
		if after := testkit.Must(f.dev.Memory())(f); after.FreeBytes != before.FreeBytes {
			f.Errorf("%d bytes are free, %d were before", after.FreeBytes, before.FreeBytes)
		}
	})
}

// element is value number i of a tensor, which every type of floats holds
// exactly.
func element(seed, i int64) float64 { return float64((i*37+seed*11)%200 - 100) }

// data is a tensor's bytes: elements where it is of floats, else random ones.
func data(t safetensors.Tensor, as safetensors.DType, seed int64) []byte {
	d, ok := as.Element()
	if !ok || !castable(d) {
		return testkit.RandomBytes(int(t.Elements()*t.DType.Bits()/8), uint64(seed))
	}
	var b []byte
	for i := range t.Elements() {
		switch v := element(seed, i); d {
		case dtype.F16:
			b = binary.LittleEndian.AppendUint16(b, float16.ToF16(float32(v)))
		case dtype.BF16:
			b = binary.LittleEndian.AppendUint16(b, float16.ToBF16(float32(v)))
		case dtype.F32:
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v)))
		default:
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
		}
	}
	return b
}

// model is tensors that were written, by name, each with the seed of its data.
type model struct {
	path  string
	seeds map[string]int64
	ck    *safetensors.Checkpoint
}

// tensor describes one.
func tensor(name string, d safetensors.DType, shape ...int64) safetensors.Tensor {
	return safetensors.Tensor{Name: name, DType: d, Shape: shape}
}

// write writes tensors as files of at most so many bytes.
func write(t testing.TB, shardBytes int64, tensors ...safetensors.Tensor) *model {
	t.Helper()
	m := &model{path: filepath.Join(t.TempDir(), "model"), seeds: map[string]int64{}}
	w := testkit.Must(safetensors.CreateFolder(m.path, tensors, safetensors.WriterOptions{ShardBytes: shardBytes}))(t)
	for i, x := range tensors {
		m.seeds[x.Name] = int64(i)
		testkit.OK(t, w.Write(x.Name, data(x, x.DType, int64(i))))
	}
	testkit.OK(t, w.Commit())
	m.ck = testkit.Must(safetensors.Open(m.path))(t)
	t.Cleanup(func() { m.ck.Close() })
	return m
}

// some are n tensors of a model with layers, of any types and sizes.
func some(r *rand.Rand, n int) []safetensors.Tensor {
	kinds := []safetensors.DType{safetensors.F32, safetensors.BF16, safetensors.F16, safetensors.F64, safetensors.I64, safetensors.U8, safetensors.F8E4M3, safetensors.Bool}
	var tensors []safetensors.Tensor
	for i := range n {
		x := tensor(fmt.Sprintf("model.layers.%d.part%d.weight", i/4, i%4), kinds[r.IntN(len(kinds))])
		switch r.IntN(8) {
		case 0: // a scalar
		case 1:
			x.Shape = []int64{3, 0}
		case 2:
			x.Shape = []int64{64 * (1 + r.Int64N(8)), 128}
		default:
			x.Shape = []int64{1 + r.Int64N(300), 1 + r.Int64N(5)}
		}
		tensors = append(tensors, x)
	}
	return tensors
}

// check compares a tensor on the device with what was written.
func (f *fixture) check(m *model, got Tensor, floats dtype.DType) {
	f.Helper()
	stored, ok := m.ck.Find(got.Name)
	if !ok {
		f.Fatalf("%q was not written", got.Name)
	}
	want := stored.DType
	if d, ok := stored.DType.Element(); ok && castable(d) && floats != 0 {
		want = safetensors.Of(floats)
	}
	if got.DType != want || !slices.Equal(got.Shape, stored.Shape) || got.Bytes != stored.Elements()*want.Bits()/8 {
		f.Fatalf("%q is %+v, want %s of %v", got.Name, got, want, stored.Shape)
	}
	if got.Bytes == 0 {
		return
	}
	b := make([]byte, got.Bytes)
	testkit.OK(f, f.targets[got.Target].Engine.D2H(f.Context(), b, got.Ptr))
	if !bytes.Equal(b, data(stored, want, m.seeds[got.Name])) {
		f.Fatalf("%q of %s, %v: other bytes", got.Name, want, stored.Shape)
	}
}
