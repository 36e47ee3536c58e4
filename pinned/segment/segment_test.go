//go:build linux || darwin

package segment

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/pagemem"
)

func second[T any](_ T, err error) error { return err }

// mustCreate makes a segment that is closed at the end of the test: an
// anonymous one where that is possible.
func mustCreate(t testing.TB, n int64, o Options) *Segment {
	t.Helper()
	if o.Path == "" && runtime.GOOS != "linux" {
		o.Path = filepath.Join(t.TempDir(), "segment")
	}
	s, err := Create(n, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func mustOpen(t testing.TB, f *os.File) *Segment {
	t.Helper()
	s, err := Open(f, OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// descriptors counts those of this process.
func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestSegment(t *testing.T) {
	before := descriptors(t)
	for _, n := range []int64{1, pagemem.PageSize(), 100_000, pagemem.HugePage + 1} {
		a := mustCreate(t, n, Options{Name: "frames"})
		b := mustOpen(t, a.File())
		for _, s := range []*Segment{a, b} {
			if m := s.Bytes(); int64(len(m)) != n || int64(cap(m)) != pagemem.RoundUp(n) || !pagemem.Aligned(m[:cap(m)]) {
				t.Errorf("%d bytes: length %d, capacity %d", n, len(m), cap(m))
			}
			if s.Len() != n || s.Name() != "frames" || s.Generation() == 0 || s.Generation() != a.Generation() {
				t.Errorf("%d bytes, name %q, generation %x", s.Len(), s.Name(), s.Generation())
			}
			if !bytes.Equal(s.Bytes(), make([]byte, n)) {
				t.Error("not zero")
			}
		}
		a.Bytes()[0]++
		b.Bytes()[n-1]++
		if !bytes.Equal(a.Bytes(), b.Bytes()) || a.Bytes()[0] == 0 || a.Bytes()[n-1] == 0 {
			t.Errorf("%d bytes: %d…%d and %d…%d", n, a.Bytes()[0], a.Bytes()[n-1], b.Bytes()[0], b.Bytes()[n-1])
		}
		if owners, err := b.Owners(); err != nil || len(owners) != 2 || owners[0].PID != os.Getpid() || !owners[1].Creator {
			t.Errorf("owners %+v, %v", owners, err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		b.Bytes()[n-1] = 7 // outlives its creator
		if owners, err := b.Owners(); err != nil || len(owners) != 1 {
			t.Errorf("owners %+v, %v", owners, err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
}

func TestSegmentClosed(t *testing.T) {
	a, b := socketPair(t)
	s := mustCreate(t, 100, Options{Name: "gone"})
	dev := newFake()
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if s.Bytes() != nil || s.File() != nil || s.Len() != 100 || s.Name() != "gone" {
		t.Errorf("%d bytes, file %v", len(s.Bytes()), s.File())
	}
	for what, err := range map[string]error{
		"owners": second(s.Owners()),
		"pin":    s.Pin(dev, 0),
		"unpin":  s.Unpin(dev),
		"mapped": second(s.Mapped(dev)),
		"send":   s.Send(a),
	} {
		if !errors.Is(err, device.ErrClosed) || err.Error() != "segment: "+what+`: used after close: segment "gone"` {
			t.Errorf("%s: %v", what, err)
		}
	}
	a.Close()
	if _, err := Receive(b); !errors.Is(err, io.EOF) {
		t.Errorf("something was sent: %v", err)
	}
}

// Everything at once, for the race detector, and a table that adds up.
func TestSegmentConcurrent(t *testing.T) {
	s := mustCreate(t, mib, Options{Path: filepath.Join(t.TempDir(), "segment")})
	var group sync.WaitGroup
	for g := range 4 {
		group.Go(func() {
			dev := newFake()
			for range 20 {
				o, err := OpenPath(s.Path(), OpenOptions{})
				if err != nil {
					t.Error(err)
					return
				}
				if err := errors.Join(s.Pin(dev, 0), second(s.Mapped(dev)), s.Unpin(dev)); err != nil {
					t.Error(err)
				}
				o.Bytes()[g]++
				var closers sync.WaitGroup
				closers.Go(func() { second(o.Owners()); o.Bytes(); o.File(); o.Pin(dev, 0) })
				closers.Go(func() {
					if err := o.Close(); err != nil {
						t.Error(err)
					}
				})
				closers.Wait()
			}
		})
	}
	group.Wait()
	if got := s.Bytes()[:5]; !bytes.Equal(got, []byte{20, 20, 20, 20, 0}) {
		t.Errorf("counted %v", got)
	}
	if owners, err := s.Owners(); err != nil || len(owners) != 1 {
		t.Errorf("%+v, %v", owners, err)
	}
}
