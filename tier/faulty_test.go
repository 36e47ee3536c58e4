package tier_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/tier"
)

// faulty is a device on which copies fail, some when they are queued and some when
// they are waited for.
type faulty struct {
	device.Wrapper

	mu   sync.Mutex
	rand *rand.Rand
	rate float64
	hits int
}

var errFault = errors.New("injected fault")

func (d *faulty) fault(what string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.rand.Float64() >= d.rate {
		return nil
	}
	d.hits++
	return fmt.Errorf("%w: %s", errFault, what)
}

func (d *faulty) set(rate float64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rate = rate
}

func (d *faulty) NewStream() (device.Stream, error) {
	s, err := d.Device.NewStream()
	return &faultyStream{device.StreamWrapper{Stream: s}, d}, err
}

func (d *faulty) NewEvent(flags device.EventFlags) (device.Event, error) {
	e, err := d.Device.NewEvent(flags)
	return &faultyEvent{device.EventWrapper{Event: e}, d}, err
}

type faultyStream struct {
	device.StreamWrapper
	d *faulty
}

func (s *faultyStream) CopyH2D(dst device.Ptr, src []byte) error {
	if err := s.d.fault("H2D"); err != nil {
		return err
	}
	return s.Stream.CopyH2D(dst, src)
}

func (s *faultyStream) CopyD2H(dst []byte, src device.Ptr) error {
	if err := s.d.fault("D2H"); err != nil {
		return err
	}
	return s.Stream.CopyD2H(dst, src)
}

type faultyEvent struct {
	device.EventWrapper
	d *faulty
}

func (e *faultyEvent) Synchronize() error {
	return errors.Join(e.Event.Synchronize(), e.d.fault("wait"))
}

// Copies that fail lose nothing: the content is what the last write that was not
// called lost made of it.
func TestFaults(t *testing.T) {
	seeds := uint64(6)
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			testFaults(t, seed, tier.Options{DeviceBytes: 24 * mib, HostBytes: 64 * mib})
		})
		t.Run(fmt.Sprint("files ", seed), func(t *testing.T) {
			testFaults(t, seed, tier.Options{DeviceBytes: 8 * mib, HostBytes: 8 * mib, Files: tier.Files{Folders: []string{t.TempDir()}, Bytes: 64 * mib}})
		})
	}
}

func testFaults(t *testing.T, seed uint64, o tier.Options) {
	r := rand.New(rand.NewPCG(seed, 9))
	dev := &faulty{Wrapper: device.Wrapper{Device: devicetest.Open(t)}, rand: rand.New(rand.NewPCG(seed, 10))}
	f := openOn(t, dev, o)
	plain, err := dev.Device.NewStream() // for the test's own copies
	testkit.OK(t, err)
	defer plain.Close()
	const n = mib
	type model struct {
		a    *tier.Array
		past []byte // the values that it had; the newest last
		back bool   // writes were lost: it has any of them
	}
	var list []*model
	for range 48 {
		list = append(list, &model{a: f.array("", n), past: []byte{0}})
	}
	lost := 0
	for range 800 {
		m := list[r.IntN(len(list))]
		dev.set(0.1)
		write := r.IntN(2) == 0
		access := tier.Read(m.a)
		if write {
			access = []tier.Access{tier.Write(m.a), tier.Overwrite(m.a)}[r.IntN(2)]
		}
		l, err := f.store.Use(ctx, plain, access)
		if err != nil {
			if !errors.Is(err, errFault) {
				t.Fatal(err)
			}
			m.back = m.back || errors.Is(err, tier.ErrLost)
			continue
		}
		if write {
			v := byte(1 + r.IntN(255))
			testkit.OK(t, plain.Memset(l.Ptr(m.a), v, n))
			if err := l.Release(); err == nil {
				m.past = append(m.past, v)
			} else if m.back = m.back || errors.Is(err, tier.ErrLost); !errors.Is(err, errFault) {
				t.Fatal(err)
			}
			continue
		}
		got := make([]byte, n)
		testkit.OK(t, plain.CopyD2H(got, l.Ptr(m.a)))
		testkit.OK(t, plain.Synchronize())
		if err := l.Release(); err != nil {
			if m.back = m.back || errors.Is(err, tier.ErrLost); !errors.Is(err, errFault) {
				t.Fatal(err)
			}
			continue // it never came
		}
	}
	dev.set(0)
	for i, m := range list {
		got := make([]byte, n)
		err := m.a.ReadAt(ctx, got, 0)
		if errors.Is(err, tier.ErrLost) {
			m.back, err = true, m.a.ReadAt(ctx, got, 0)
		}
		testkit.OK(t, err)
		if m.back {
			lost++
			at := slices.Index(m.past, got[0])
			if at < 0 || !bytes.Equal(got, bytes.Repeat(got[:1], n)) {
				t.Errorf("array %d: %d, want one of %d", i, got[0], m.past)
			}
			continue
		}
		if want := m.past[len(m.past)-1]; !bytes.Equal(got, bytes.Repeat([]byte{want}, n)) {
			t.Errorf("array %d: %d, want %d of %d", i, got[0], want, m.past)
		}
	}
	if dev.hits == 0 {
		t.Error("nothing failed")
	}
	t.Logf("%d faults, %d arrays went back", dev.hits, lost)
}
