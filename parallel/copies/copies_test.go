package copies_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/host"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/parallel/conformance"
	"github.com/pinion-gpu/pinion/parallel/copies"
	"github.com/pinion-gpu/pinion/parallel/local"
)

// small has operations of any size go by copies, many of them in several turns.
func small(t testing.TB) { t.Cleanup(copies.Small(1, 1<<20)) }

// plain are communicators of ranks of this process.
func plain(t testing.TB, size int) []parallel.Comm {
	testkit.NoLeaks(t)
	var devices []device.Device
	for range size {
		dev := testkit.Must(device.Open("host"))(t)
		t.Cleanup(func() { testkit.OK(t, dev.Close()) })
		devices = append(devices, dev)
	}
	return testkit.Must(local.New(devices...))(t)
}

func open(t testing.TB, size int) []parallel.Comm {
	small(t)
	comms := plain(t, size)
	if size > 1 {
		testkit.OK(t, each(comms, func(c parallel.Comm) (err error) {
			comms[c.Rank()], err = copies.Open(c)
			return err
		}))
	}
	return comms
}

func each(comms []parallel.Comm, fn func(parallel.Comm) error) error {
	var all errgroup.Group
	for _, c := range comms {
		all.Go(func() error { return fn(c) })
	}
	return all.Wait()
}

func TestConformance(t *testing.T) { conformance.Run(t, open) }

// programs are run by two ranks of this process, and of processes with a GPU each.
var programs = map[string]func(parallel.Comm) error{"random": random, "captured": captured, "aborted": aborted, "conformance": conforms}

// conforms has one communicator do all cases.
func conforms(c parallel.Comm) error {
	for _, k := range conformance.Cases {
		if err := k.Run(c); err != nil {
			return err
		}
	}
	return nil
}

func TestPrograms(t *testing.T) {
	for name, run := range programs {
		t.Run(name, func(t *testing.T) {
			comms := open(t, 2)
			testkit.OK(t, each(comms, run))
			testkit.OK(t, each(comms, parallel.Comm.Close))
		})
	}
}

// Sums in all types and shapes are what the communicator below makes of them.
func random(c parallel.Comm) error {
	const rounds, arenaBytes = 40, 256 << 20
	size := c.Size()
	types := []dtype.DType{dtype.F16, dtype.BF16, dtype.F32, dtype.F64}
	random := rand.New(rand.NewPCG(7, 9)) // the same on all ranks
	below := c.(interface{ Unwrap() parallel.Comm }).Unwrap()
	s, err := c.Device().NewStream()
	if err != nil {
		return err
	}
	defer s.Close()
	arena, err := c.Device().Alloc(arenaBytes)
	if err != nil {
		return err
	}
	defer c.Device().Free(arena)
	for round := range rounds {
		t, op := types[random.IntN(len(types))], []parallel.Op{parallel.Sum, parallel.Avg}[random.IntN(2)]
		kind, apart, width := random.IntN(3), random.IntN(2) == 1, int64(t.Size())
		var parts [2][]parallel.Part // by copies, and below
		free := arena
		alloc := func(n int) device.Ptr {
			p := free
			free = free.Add(int64(n+16+255) / 256 * 256)
			return p
		}
		for range 1 + random.IntN(5) {
			n := []int64{0, 1, 3, 17, 4096, 100_003, 1 << 18, 700_001}[random.IntN(8)]
			if kind == 2 {
				n *= width // bytes
				width = 1
			}
			sent, received := n, n
			switch kind {
			case 1:
				sent *= int64(size)
			case 2:
				received *= int64(size)
			}
			data := make([]byte, max(sent, received)*width)
			own := rand.New(rand.NewPCG(uint64(round), uint64(c.Rank())))
			for i := 0; i+8 <= len(data); i += 8 { // small whole numbers in any type of floats
				copy(data[i:], encode(t, own))
			}
			for way := range parts {
				send := alloc(len(data))
				recv := send
				if apart {
					recv = alloc(len(data))
					err = s.Memset(recv, 0, int64(len(data)+16))
				}
				if err = errors.Join(err, s.CopyH2D(send.Add(width), data)); err != nil {
					return err
				}
				x := parallel.Part{Send: send.Add(width), Recv: recv.Add(width), N: n}
				if !apart {
					switch kind {
					case 1:
						x.Recv = x.Send.Add(int64(c.Rank()) * n * width)
					case 2:
						x.Send = x.Recv.Add(int64(c.Rank()) * n)
					}
				}
				parts[way] = append(parts[way], x)
			}
			width = int64(t.Size())
		}
		for way, with := range []parallel.Comm{c, below} {
			switch kind {
			case 0:
				err = with.AllReduce(s, t, op, parts[way]...)
			case 1:
				err = with.ReduceScatter(s, t, op, parts[way]...)
			default:
				err = with.AllGather(s, parts[way]...)
			}
			if err != nil {
				return err
			}
		}
		if err := s.Synchronize(); err != nil {
			return err
		}
		for i, x := range parts[0] {
			bytes := x.N * width
			if kind == 2 {
				bytes = x.N * int64(size)
			}
			var got [2][]byte
			for way := range got {
				got[way] = make([]byte, bytes)
				if err := errors.Join(s.CopyD2H(got[way], parts[way][i].Recv), s.Synchronize()); err != nil {
					return err
				}
			}
			for k := range got[0] {
				if got[0][k] != got[1][k] {
					return fmt.Errorf("round %d, kind %d of %v, %v, apart %v: rank %d, part %d of %d elements: byte %d is %#x, want %#x",
						round, kind, t, op, apart, c.Rank(), i, x.N, k, got[0][k], got[1][k])
				}
			}
		}
	}
	return nil
}

// encode is 8 bytes of small whole numbers.
func encode(t dtype.DType, r *rand.Rand) (b []byte) {
	words := map[dtype.DType][]uint64{
		dtype.F16: {0, 0x3c00, 0x4000, 0xbc00}, dtype.BF16: {0, 0x3f80, 0x4000, 0xbf80},
		dtype.F32: {0, 0x3f800000, 0x40000000, 0xbf800000}, dtype.F64: {0, 0x3ff << 52, 1 << 62, 0xbff << 52},
	}[t]
	for len(b) < 8 {
		v := words[r.IntN(4)]
		for i := range t.Size() {
			b = append(b, byte(v>>(8*i)))
		}
	}
	return b
}

// A graph with operations can be launched again and again.
func captured(c parallel.Comm) error {
	const n, launches = 1 << 20, 3
	dev := c.Device()
	graphs, ok := device.As[device.Capturer](dev)
	if !ok || !graphs.CanCapture() {
		return nil
	}
	s, err := dev.NewStream()
	if err != nil {
		return err
	}
	defer s.Close()
	p, err := dev.Alloc(n)
	if err != nil {
		return err
	}
	defer dev.Free(p)
	g, err := graphs.Capture(s, func() error {
		return c.AllReduce(s, dtype.F32, parallel.Sum, parallel.Part{Send: p, Recv: p, N: n / 4})
	})
	if err != nil {
		return err
	}
	defer g.Close()
	if err := s.Memset(p, 0, n); err != nil {
		return err
	}
	if err := s.CopyH2D(p, []byte{0, 0, 0x80, 0x3f}); err != nil { // a one
		return err
	}
	for range launches {
		if err := g.Launch(s); err != nil {
			return err
		}
	}
	got := make([]byte, 8)
	if err := errors.Join(s.CopyD2H(got, p), s.Synchronize()); err != nil {
		return err
	}
	if got[3] != 0x41 || got[2] != 0 || got[7] != 0 { // 8
		return fmt.Errorf("after %d sums of 2 ranks: % x", launches, got)
	}
	return nil
}

// What waits for a rank that does not come ends with Abort, several operations of it, and so does
// what is launched afterwards.
func aborted(c parallel.Comm) error {
	reason := errors.New("the other one is gone")
	if c.Rank() == 0 {
		c.Abort(reason)
		return nil
	}
	const n = 1 << 20
	dev := c.Device()
	s, err := dev.NewStream()
	if err != nil {
		return err
	}
	defer s.Close()
	p, err := dev.Alloc(n)
	if err != nil {
		return err
	}
	var graph device.Graph
	if graphs, ok := device.As[device.Capturer](dev); ok && graphs.CanCapture() {
		if graph, err = graphs.Capture(s, func() error {
			return c.AllReduce(s, dtype.F32, parallel.Sum, parallel.Part{Send: p, Recv: p, N: n / 4})
		}); err != nil {
			return err
		}
		defer graph.Close()
	}
	for range 20 {
		if err := errors.Join(c.AllReduce(s, dtype.F32, parallel.Sum, parallel.Part{Send: p, Recv: p, N: n / 4}),
			c.AllGather(s, parallel.Part{Send: p, Recv: p, N: n / 2})); err != nil {
			return err
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Synchronize() }()
	select {
	case err := <-ended:
		return fmt.Errorf("it did not wait: %w", err)
	case <-time.After(20 * time.Millisecond):
	}
	c.Abort(reason)
	c.Abort(errors.New("another reason"))
	_, hosted := device.As[device.Caller](dev)
	is := func(what string, err error) error {
		if errors.Is(err, parallel.ErrAborted) && errors.Is(err, reason) {
			return nil
		}
		return fmt.Errorf("%s: %w, want that it was aborted", what, err)
	}
	ends := func(what string) error {
		select {
		case err := <-ended:
			if hosted || err != nil {
				return is(what, err)
			}
			return nil
		case <-time.After(time.Minute):
			return fmt.Errorf("%s does not end", what)
		}
	}
	if err := ends("what was queued"); err != nil {
		return err
	}
	if graph != nil {
		if err := graph.Launch(s); err != nil {
			return err
		}
		go func() { ended <- s.Synchronize() }()
		if err := ends("what was launched"); err != nil {
			return err
		}
	}
	if err := is("a call", c.AllReduce(s, dtype.F32, parallel.Sum, parallel.Part{Send: p, Recv: p, N: n / 4})); err != nil {
		return err
	}
	return is("a barrier", c.Barrier(context.Background()))
}

// alone is a device that shares nothing.
type alone struct{ *host.Device }

func (alone) CanShare() bool { return false }

func TestNotSupported(t *testing.T) {
	testkit.NoLeaks(t)
	var devices []device.Device
	for i := range 2 {
		dev := testkit.Must(host.Open(1 << 30))(t)
		t.Cleanup(func() { testkit.OK(t, dev.Close()) })
		devices = append(devices, dev)
		if i == 1 {
			devices[1] = alone{dev}
		}
	}
	comms := testkit.Must(local.New(devices...))(t)
	testkit.OK(t, each(comms, func(c parallel.Comm) error {
		before, _ := c.Device().Memory()
		got, err := copies.Open(c)
		if got != nil || !errors.Is(err, device.ErrNotSupported) {
			return fmt.Errorf("rank %d: %v, %v, want an error that says so", c.Rank(), got, err)
		}
		after, _ := c.Device().Memory()
		if after.FreeBytes != before.FreeBytes {
			return fmt.Errorf("rank %d: %d bytes are free, %d were before", c.Rank(), after.FreeBytes, before.FreeBytes)
		}
		return c.Barrier(context.Background())
	}))
	testkit.OK(t, each(comms, parallel.Comm.Close))

	one := plain(t, 1)
	_, err := copies.Open(one[0])
	testkit.WantError(t, "one rank", err, device.ErrNotSupported, "one rank has nobody to copy to")
	testkit.OK(t, one[0].Close())
}

// Memory that is none is refused before anything is queued.
func TestArguments(t *testing.T) {
	comms := open(t, 2)
	c := comms[0]
	s := testkit.Must(c.Device().NewStream())(t)
	defer s.Close()
	p := testkit.Must(c.Device().Alloc(1 << 20))(t)
	for name, err := range map[string]error{
		"all-reduce":     c.AllReduce(s, dtype.F32, parallel.Sum, parallel.Part{Send: p, Recv: p.Add(4), N: 1 << 18}),
		"reduce-scatter": c.ReduceScatter(s, dtype.F32, parallel.Sum, parallel.Part{Send: p, Recv: p, N: 1<<17 + 1}),
		"all-gather":     c.AllGather(s, parallel.Part{Send: p, Recv: p, N: 1<<19 + 1}),
	} {
		testkit.WantError(t, name, err, device.ErrPointer, "copies: "+name)
	}
	testkit.WantError(t, "no stream", c.AllReduce(nil, dtype.F32, parallel.Sum, parallel.Part{Send: p, Recv: p, N: 1}), parallel.ErrArgument)
	testkit.WantError(t, "alignment", c.AllReduce(s, dtype.F32, parallel.Sum, parallel.Part{Send: p.Add(1), Recv: p, N: 1}), parallel.ErrArgument)
	testkit.OK(t, each(comms, parallel.Comm.Close))
}
