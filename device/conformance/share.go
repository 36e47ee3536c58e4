package conformance

import (
	"bytes"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/conformance/internal/fixture"
)

// side is one of two devices that write into each other's memory.
type side struct {
	*fixture.F
	share  device.Sharer
	stream device.Stream
	own    device.Ptr // [0]: the other's bytes are here; [1]: it has taken mine; then bytes
	there  device.Ptr // the same of the other one
}

const (
	arrived   = 0
	taken     = 64
	sentBytes = 1 << 20
	sent      = 256
)

// sides are the device and another, or skips the test.
func sides(f *fixture.F) [2]*side {
	other := *f
	other.Dev = f.OpenOther()
	two := [2]*side{{F: f}, {F: &other}}
	var names [2][]byte
	for i, x := range two {
		share, ok := device.As[device.Sharer](x.Dev)
		if !ok || !share.CanShare() {
			f.Skip("the device does not share memory")
		}
		x.share, x.stream, x.own = share, x.Stream(), x.Alloc(sent+sentBytes)
		f.OK(x.stream.Memset(x.own, 0, sent+sentBytes))
		f.OK(x.stream.Synchronize())
		var err error
		names[i], err = share.Share(x.own)
		f.OK(err)
	}
	for i, x := range two {
		var err error
		if x.there, err = x.share.Reach(names[1-i]); err != nil {
			f.Skip(err)
		}
	}
	f.Cleanup(func() {
		for _, x := range two {
			f.OK(x.stream.Synchronize())
			f.OK(x.share.Unreach(x.there))
		}
	})
	return two
}

// send queues what one round is: bytes go over once the last ones were taken, and those that
// come are copied to p.
func (x *side) send(from, p device.Ptr) {
	x.OK(x.stream.CopyD2D(x.there.Add(sent), from, sentBytes))
	x.OK(x.share.Signal(x.stream, x.there.Add(arrived)))
	x.OK(x.share.Await(x.stream, x.own.Add(arrived)))
	x.OK(x.stream.CopyD2D(p, x.own.Add(sent), sentBytes))
	x.OK(x.share.Signal(x.stream, x.there.Add(taken)))
	x.OK(x.share.Await(x.stream, x.own.Add(taken)))
}

func (x *side) holds(p device.Ptr, want byte) {
	x.Helper()
	if got := x.Download(p, sentBytes); !bytes.Equal(got, bytes.Repeat([]byte{want}, sentBytes)) {
		x.Fatalf("%s: %d…, want %d", x.Dev.Info().ID, got[0], want)
	}
}

// Bytes are there when the word is set, both ways, many times.
func testShare(f *fixture.F) {
	two := sides(f)
	const rounds = 20
	var to [2][rounds]device.Ptr // read when all is queued: a copy of pageable memory waits
	for n := range rounds {
		for i, x := range two {
			from := x.Alloc(sentBytes)
			to[i][n] = x.Alloc(sentBytes)
			x.OK(x.stream.Memset(from, byte(1+2*n+i), sentBytes))
			x.send(from, to[i][n])
		}
	}
	for _, x := range two {
		f.Within("Synchronize", x.stream.Synchronize)
	}
	for i, x := range two {
		for n := range rounds {
			x.holds(to[i][n], byte(1+2*n+1-i))
		}
	}
}

// A graph that has a round can be launched again.
func testShareCaptured(f *fixture.F) {
	two := sides(f)
	var graphs [2]device.Graph
	var from, to [2]device.Ptr
	for i, x := range two {
		c, ok := device.As[device.Capturer](x.Dev)
		if !ok || !c.CanCapture() {
			f.Skip("the device captures nothing")
		}
		from[i], to[i] = x.Alloc(sentBytes), x.Alloc(sentBytes)
		x.OK(x.share.Signal(x.stream, x.own.Add(128))) // what the first one makes is there
		var err error
		graphs[i], err = c.Capture(x.stream, func() error { x.send(from[i], to[i]); return nil })
		f.OK(err)
		defer func() { f.OK(graphs[i].Close()) }()
	}
	for n := range 5 {
		for i, x := range two {
			f.OK(x.stream.Memset(from[i], byte(1+2*n+i), sentBytes))
			f.OK(graphs[i].Launch(x.stream))
		}
		for _, x := range two {
			f.Within("Synchronize", x.stream.Synchronize)
		}
		for i, x := range two {
			x.holds(to[i], byte(1+2*n+1-i))
		}
	}
}

func testShareArguments(f *fixture.F) {
	two := sides(f)
	x := two[0]
	_, err := x.share.Share(x.own.Add(64))
	f.Fails("Share in the middle", err, device.ErrPointer)
	name, err := x.share.Share(x.own)
	f.OK(err)
	_, err = x.share.Reach(name)
	f.Fails("Reach of its own", err, device.ErrArgument)
	_, err = x.share.Reach(name[1:])
	f.Fails("Reach of half a name", err, device.ErrArgument)
	f.Fails("Signal on another's stream", x.share.Signal(two[1].stream, x.own), device.ErrArgument)
	f.Fails("Await on another's stream", x.share.Await(two[1].stream, x.own), device.ErrArgument)
	f.OK(x.share.Await(x.stream))

	closed := f.OpenOther()
	share, ok := device.As[device.Sharer](closed)
	if !ok {
		f.Fatal("one device shares, the other does not")
	}
	p, err := closed.Alloc(64)
	f.OK(err)
	name, err = share.Share(p)
	f.OK(err)
	f.OK(closed.Close())
	_, err = x.share.Reach(name)
	f.Fails("Reach of a closed device", err, device.ErrClosed)
	_, err = share.Share(p)
	f.Fails("Share of a closed device", err, device.ErrClosed)
}
