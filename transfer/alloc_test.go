//go:build !race

package transfer_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/transfer"
)

// A copy allocates nothing, on whatever path, once the engine has warmed up.
// (With the race detector pools forget what they hold.)
func TestCopiesAllocateNothing(t *testing.T) {
	f := open(t)
	caller, ok := device.As[device.Caller](f.Dev.Device)
	if !ok {
		t.Skip("the benchmarks count the allocations on other devices")
	}
	e, err := transfer.New(&instant{f.Dev, caller}, small)
	f.OK(err)
	defer func() { f.OK(e.Close()) }()
	const n = 1 << 20
	p := f.Alloc(n)
	pageable, pinned := make([]byte, n), f.PinnedMemory(n)
	progress := func(int64, int64) {}
	stream, err := e.Device().NewStream()
	f.OK(err)
	defer stream.Close()
	cancellable, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, c := range []struct {
		name string
		host []byte
	}{
		{"nothing", nil},
		{"small", pageable[:100]},
		{"pinned", pinned},
		{"staged", pageable},
	} {
		for _, toHost := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, to host %t", c.name, toHost), func(t *testing.T) {
				check := func(what string, do func() error) {
					if n := testing.AllocsPerRun(100, func() {
						if err := do(); err != nil {
							t.Fatal(err)
						}
					}); n != 0 {
						t.Errorf("%s: %v allocations a copy", what, n)
					}
				}
				check("plain", func() error {
					if toHost {
						return e.D2H(ctx, c.host, p)
					}
					return e.H2D(ctx, p, c.host)
				})
				check("on a stream", func() error {
					return e.Do(cancellable, transfer.Copy{Host: c.host, Device: p, ToHost: toHost, On: stream})
				})
				check("with progress and context", func() error {
					return e.Do(cancellable, transfer.Copy{Host: c.host, Device: p, ToHost: toHost, Progress: progress})
				})
			})
		}
	}
}

// instant is a device whose streams copy at once, so that what is counted is
// the engine's doing: a stream of the host backend allocates when it wakes.
type instant struct {
	*rig
	caller device.Caller
}

func (d *instant) NewStream() (device.Stream, error) {
	s, err := d.rig.NewStream()
	return &instantStream{s, d.caller}, err
}

type instantStream struct {
	device.Stream
	caller device.Caller
}

func (s *instantStream) CopyH2D(dst device.Ptr, src []byte) error {
	b, err := s.caller.Bytes(dst, int64(len(src)))
	copy(b, src)
	return err
}

func (s *instantStream) CopyD2H(dst []byte, src device.Ptr) error {
	b, err := s.caller.Bytes(src, int64(len(dst)))
	copy(dst, b)
	return err
}

func (s *instantStream) Record(device.Event) error { return nil }
func (s *instantStream) Synchronize() error        { return nil }
