package cudnn_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/device/host"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/dl"
	"github.com/pinion-gpu/pinion/internal/float16"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/step/internal/cudnn"
	"github.com/pinion-gpu/pinion/step/internal/cudnn/cudnntest"
)

// rig is the library on a device.
type rig struct {
	dev    device.Device
	stream device.Stream
	lib    *cudnn.Library
}

// open opens the device and the library, or skips the test where one is not there.
func open(t *testing.T) *rig {
	t.Helper()
	if standIns.Missing != "" {
		t.Skip(standIns.Missing)
	}
	dev := devicetest.Open(t)
	if n, ok := device.As[device.Native](dev); !ok || n.API() != device.CUDA {
		t.Skip("not a CUDA device")
	}
	lib, err := cudnn.Open(dev)
	if errors.Is(err, device.ErrNotSupported) {
		t.Skip(err)
	}
	testkit.OK(t, err)
	r := &rig{dev, testkit.Must(dev.NewStream())(t), lib}
	t.Cleanup(func() { testkit.OK(t, errors.Join(r.lib.Close(), r.stream.Close())) })
	return r
}

func size(dims []int) int {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return n
}

// put is an array of small integers.
func put(rng *rand.Rand, t dtype.DType, dims []int) []byte {
	var data []byte
	for range size(dims) {
		x := float32(rng.IntN(7) - 3)
		switch t {
		case dtype.F32:
			data, _ = binary.Append(data, binary.LittleEndian, x)
		case dtype.F16:
			data = binary.LittleEndian.AppendUint16(data, float16.ToF16(x))
		case dtype.BF16:
			data = binary.LittleEndian.AppendUint16(data, float16.ToBF16(x))
		}
	}
	return data
}

// run computes a convolution of random operands, twice, and compares it with the host's.
func (r *rig) run(t *testing.T, c cudnn.Convolution) {
	t.Helper()
	p, err := r.lib.Plan(c)
	if standIns.File == "" && errors.Is(err, device.ErrNotSupported) {
		t.Logf("%+v: %v", c, err)
		return
	}
	testkit.OK(t, err)
	rng := rand.New(rand.NewPCG(1, 2))
	sides := [3][]byte{put(rng, c.Type, c.Image), put(rng, c.Type, c.Filter), put(rng, c.Type, c.Result)}
	to := map[cudnn.Kind]int{cudnn.Forward: 2, cudnn.BackwardData: 0, cudnn.BackwardFilter: 1}[c.Kind]
	var at [3]device.Ptr
	for i, data := range sides {
		at[i] = testkit.Must(r.dev.Alloc(int64(len(data))))(t)
		testkit.OK(t, r.stream.CopyH2D(at[i], data))
	}
	workspace := testkit.Must(r.dev.Alloc(max(p.WorkspaceBytes(), 256)))(t)
	got := [2][]byte{}
	for i := range got {
		testkit.OK(t, r.lib.Run(r.stream, p, workspace, at[0], at[1], at[2]))
		got[i] = make([]byte, len(sides[to]))
		testkit.OK(t, r.stream.CopyD2H(got[i], at[to]))
		testkit.OK(t, r.stream.Synchronize())
	}
	cudnntest.Compute(c, sides[0], sides[1], sides[2])
	if !bytes.Equal(got[0], sides[to]) {
		t.Errorf("%+v: results differ from the host's", c)
	}
	if !bytes.Equal(got[0], got[1]) {
		t.Errorf("%+v: results differ from one time to the next", c)
	}
	for _, p := range append(at[:], workspace) {
		testkit.OK(t, r.dev.Free(p))
	}
}

var kinds = []cudnn.Kind{cudnn.Forward, cudnn.BackwardData, cudnn.BackwardFilter}

// Sums of small integers are exact in every type.
func TestConvolutions(t *testing.T) {
	r := open(t)
	t.Logf("%s", r.lib.Version())
	one, two := []int{1, 1}, []int{2, 2}
	none := []int{0, 0}
	for _, d := range []dtype.DType{dtype.F32, dtype.BF16, dtype.F16} {
		for _, kind := range kinds {
			for _, last := range []bool{true, false} {
				t.Run(fmt.Sprintf("%v %v last %t", d, kind, last), func(t *testing.T) {
					for _, c := range []cudnn.Convolution{
						{Image: []int{2, 8, 6, 5}, Filter: []int{16, 8, 3, 3}, Result: []int{2, 16, 6, 5}, Strides: one, Low: one, High: one, Dilation: one},
						{Image: []int{2, 8, 7, 8}, Filter: []int{8, 8, 3, 2}, Result: []int{2, 8, 4, 4}, Strides: two, Low: []int{1, 0}, High: []int{1, 0}, Dilation: one},
						{Image: []int{1, 8, 8, 8}, Filter: []int{8, 8, 3, 3}, Result: []int{1, 8, 4, 4}, Strides: one, Low: none, High: none, Dilation: two},
						{Image: []int{2, 16, 5, 4}, Filter: []int{16, 8, 3, 3}, Result: []int{2, 16, 5, 4}, Strides: one, Low: one, High: one, Dilation: one},
						{Image: []int{2, 16, 5, 4}, Filter: []int{8, 16, 1, 1}, Result: []int{2, 8, 3, 2}, Strides: two, Low: none, High: none, Dilation: one},
					} {
						c.Kind, c.Type, c.ChannelsLast = kind, d, last
						r.run(t, c)
					}
				})
			}
		}
	}
}

// A shape without channels that vectors suit, asymmetric zeros, and three spatial axes.
func TestOdd(t *testing.T) {
	r := open(t)
	for _, kind := range kinds {
		for _, last := range []bool{true, false} {
			r.run(t, cudnn.Convolution{Kind: kind, Type: dtype.F32, ChannelsLast: last, Image: []int{2, 3, 9, 8}, Filter: []int{5, 3, 4, 3}, Result: []int{2, 5, 5, 4},
				Strides: []int{2, 2}, Low: []int{1, 0}, High: []int{2, 1}, Dilation: []int{1, 1}})
			r.run(t, cudnn.Convolution{Kind: kind, Type: dtype.F32, ChannelsLast: last, Image: []int{1, 4, 4, 5, 6}, Filter: []int{4, 4, 2, 3, 1}, Result: []int{1, 4, 3, 5, 6},
				Strides: []int{1, 1, 1}, Low: []int{0, 1, 0}, High: []int{0, 1, 0}, Dilation: []int{1, 1, 1}})
		}
	}
}

// The library is asked once for each convolution, and everything is given back.
func TestPlans(t *testing.T) {
	r := open(t)
	if standIns.File == "" {
		t.Skip("the stand-in counts")
	}
	var count, asked dl.Func
	_, err := dl.Open(dl.Library{Name: "fake", Files: []string{standIns.File}, Symbols: []dl.Symbol{
		{Name: "fakecudnnCount", Func: &count}, {Name: "fakecudnnAsked", Func: &asked}}})
	testkit.OK(t, err)
	before, begun := count.Call(), asked.Call()
	lib, err := cudnn.Open(r.dev)
	testkit.OK(t, err)
	c := cudnn.Convolution{Type: dtype.F32, Image: []int{1, 1, 2, 2}, Filter: []int{1, 1, 1, 1}, Result: []int{1, 1, 2, 2}, Strides: []int{1, 1}, Low: []int{0, 0}, High: []int{0, 0}, Dilation: []int{1, 1}}
	p := testkit.Must(lib.Plan(c))(t)
	if q := testkit.Must(lib.Plan(c))(t); q != p {
		t.Error("two plans for the same")
	}
	if n := asked.Call() - begun; n != 2 { // of two modes
		t.Errorf("%d questions for float32", n)
	}
	c.Type = dtype.BF16
	testkit.Must(lib.Plan(c))(t)
	if n := asked.Call() - begun; n != 3 {
		t.Errorf("%d questions more for bfloat16", n-2)
	}
	testkit.OK(t, errors.Join(lib.Close(), lib.Close()))
	if n := count.Call(); n != before {
		t.Errorf("%d of the library's objects are left", n-before)
	}
	_, err = lib.Plan(c)
	testkit.WantError(t, "a closed library", err, device.ErrClosed)
	testkit.WantError(t, "a closed library", lib.Run(r.stream, p, 0, 0, 0, 0), device.ErrClosed)
}

func TestArguments(t *testing.T) {
	r := open(t)
	good := cudnn.Convolution{Type: dtype.F32, Image: []int{1, 4, 2, 2}, Filter: []int{4, 4, 1, 1}, Result: []int{1, 4, 2, 2}, Strides: []int{1, 1}, Low: []int{0, 0}, High: []int{0, 0}, Dilation: []int{1, 1}}
	for what, change := range map[string]func(c *cudnn.Convolution){
		"a type":      func(c *cudnn.Convolution) { c.Type = dtype.I32 },
		"a rank":      func(c *cudnn.Convolution) { c.Filter = []int{4, 4, 1} },
		"a result":    func(c *cudnn.Convolution) { c.Result = []int{1, 4, 2, 3} },
		"channels":    func(c *cudnn.Convolution) { c.Filter = []int{4, 3, 1, 1} },
		"zeros":       func(c *cudnn.Convolution) { c.Low, c.High = []int{-1, 0}, []int{1, 0} },
		"no elements": func(c *cudnn.Convolution) { c.Image = []int{0, 4, 2, 2} },
	} {
		c := good
		change(&c)
		_, err := r.lib.Plan(c)
		testkit.WantError(t, what, err, device.ErrArgument)
	}
	p := testkit.Must(r.lib.Plan(good))(t)
	at := testkit.Must(r.dev.Alloc(1 << 16))(t)
	workspace := testkit.Must(r.dev.Alloc(max(p.WorkspaceBytes(), 256)))(t)
	testkit.WantError(t, "an odd address", r.lib.Run(r.stream, p, workspace, at.Add(4), at.Add(1<<10), at.Add(2<<10)), device.ErrArgument, "image")
	testkit.WantError(t, "an address of nothing", r.lib.Run(r.stream, p, workspace, at, 4096, at.Add(2<<10)), device.ErrPointer, "filter")
	testkit.WantError(t, "no stream", r.lib.Run(nil, p, workspace, at, at, at), device.ErrArgument)
	testkit.WantError(t, "two operands", r.lib.Run(r.stream, p, workspace, at, at), device.ErrArgument, "2 operands")
	testkit.OK(t, errors.Join(r.dev.Free(at), r.dev.Free(workspace)))
}

func TestOpenOnOther(t *testing.T) {
	dev := testkit.Must(host.Open(1 << 20))(t)
	defer dev.Close()
	_, err := cudnn.Open(dev)
	testkit.WantError(t, "the host", err, device.ErrNotSupported, "is not a CUDA device")
}

func TestError(t *testing.T) {
	for status, kind := range map[int]error{4003: device.ErrOutOfMemory, 4004: device.ErrOutOfMemory, 2005: device.ErrArgument, 3007: device.ErrNotSupported} {
		err := &cudnn.Error{Call: "call", Status: status, Name: "NAME"}
		if !errors.Is(err, kind) || errors.Is(err, device.ErrClosed) {
			t.Errorf("%v is no %v", err, kind)
		}
	}
	if got := (&cudnn.Error{Call: "f", Status: 3000, Name: "CUDNN_STATUS_NOT_SUPPORTED", Reason: "why"}).Error(); got != "f: CUDNN_STATUS_NOT_SUPPORTED (3000): why" {
		t.Error(got)
	}
}
