//go:build linux || darwin

package segment

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/internal/shmem"
)

// queue is a device on which work of others is queued: an event is passed when
// the test says so.
type queue struct {
	*fakeDevice
	refuses error // of RecordAll
	queued  []*queueEvent
	open    int // events
	waits   int
	closed  bool
}

type queueEvent struct {
	device.Event
	queue  *queue
	passed bool
}

func newQueue() *queue { return &queue{fakeDevice: newFake()} }

func (q *queue) NewEvent(device.EventFlags) (device.Event, error) {
	q.open++
	return &queueEvent{queue: q}, nil
}

func (q *queue) CanRecordAll() bool { return true }

func (q *queue) RecordAll(e device.Event) error {
	if q.refuses == nil {
		q.queued = append(q.queued, e.(*queueEvent))
	}
	return q.refuses
}

func (q *queue) Synchronize() error {
	q.waits++
	q.pass(len(q.queued))
	return nil
}

// pass ends the work before the first n marks.
func (q *queue) pass(n int) {
	for _, e := range q.queued[:n] {
		e.passed = true
	}
	q.queued = q.queued[n:]
}

func (q *queue) Close() error { q.closed = true; return nil }

func (e *queueEvent) Done() (bool, error) { return e.passed, nil }
func (e *queueEvent) Close() error        { e.queue.open--; return nil }

// waiting is a device without a ContextRecorder.
type waiting struct {
	device.Device
	waits int
}

func (w *waiting) Synchronize() error { w.waits++; return nil }
func (w *waiting) Close() error       { return nil }

func mustLend(t *testing.T, l *Lender, start, n int64) (loan *Loan, free *bool) {
	t.Helper()
	free = new(bool)
	loan, err := l.Lend(start, n, func() { *free = true })
	if err != nil {
		t.Fatal(err)
	}
	return loan, free
}

// A part is free when the work that was queued before it came back is done, on
// every device, and no sooner.
func TestLendAfterWork(t *testing.T) {
	s := mustCreate(t, mib, Options{})
	l := NewLender(s)
	loan, free := mustLend(t, l, 0, 64<<10)
	loan.Return()
	if l.Settle(); !*free {
		t.Error("no device reads it, and it is not free")
	}

	a, b := newQueue(), newQueue()
	b.pinned = map[uintptr]int{}
	if err := errors.Join(l.Use(a), l.Use(b)); err != nil {
		t.Fatal(err)
	}
	first, freeFirst := mustLend(t, l, 0, 64<<10)
	second, freeSecond := mustLend(t, l, 64<<10, 64<<10)
	first.Return()
	l.Settle()
	second.Return()
	if got := l.Stats(); got.Lent != 0 || got.Pending != 2 || got.PinnedBytes != 128<<10 {
		t.Errorf("%+v", got)
	}
	l.Settle()
	a.pass(2)
	l.Settle()
	if *freeFirst || *freeSecond {
		t.Error("free before the second device is done")
	}
	b.pass(1)
	if l.Settle(); !*freeFirst || *freeSecond {
		t.Errorf("after the first mark: %v, %v", *freeFirst, *freeSecond)
	}
	b.pass(1)
	if l.Settle(); !*freeSecond {
		t.Error("not free")
	}
	if a.open != 0 || b.open != 0 || a.waits != 0 {
		t.Errorf("%d and %d events open, %d waits", a.open, b.open, a.waits)
	}
	l.Close()
	<-l.Done()
	if !a.closed || !b.closed || a.bytes() != 0 || s.Bytes() != nil {
		t.Error("not everything is given back")
	}
}

// What cannot be marked now is marked later: it is not free meanwhile.
func TestLendMarkRefused(t *testing.T) {
	l := NewLender(mustCreate(t, mib, Options{}))
	q := newQueue()
	if err := l.Use(q); err != nil {
		t.Fatal(err)
	}
	loan, free := mustLend(t, l, 0, 64<<10)
	q.refuses = errors.New("a capture")
	loan.Return()
	l.Settle()
	if got := l.Stats(); *free || got.Pending != 1 || q.open != 0 || !errors.Is(got.Err, q.refuses) {
		t.Errorf("free %v, %+v, %d events", *free, got, q.open)
	}
	q.refuses = nil
	l.Settle()
	q.pass(1)
	if l.Settle(); !*free {
		t.Error("not free")
	}
	l.Close()
	<-l.Done()
}

func TestLendDeviceThatWaits(t *testing.T) {
	l, w := NewLender(mustCreate(t, mib, Options{})), &waiting{}
	if err := l.Use(w); err != nil {
		t.Fatal(err)
	}
	loan, free := mustLend(t, l, 0, 64<<10)
	if l.Settle(); w.waits != 0 {
		t.Error("waits for nothing")
	}
	loan.Return()
	if l.Settle(); !*free || w.waits != 1 || loan.PinError() != nil {
		t.Errorf("free %v after %d waits, %v", *free, w.waits, loan.PinError())
	}
	l.Close()
	<-l.Done()
}

// Loans outlive Close; the last one gives everything back, behind its work.
func TestLendClose(t *testing.T) {
	s := mustCreate(t, mib, Options{})
	l, q := NewLender(s), newQueue()
	if err := l.Use(q); err != nil {
		t.Fatal(err)
	}
	a, freeA := mustLend(t, l, 0, 64<<10)
	b, freeB := mustLend(t, l, 64<<10, 64<<10)
	l.Close()
	l.Close()
	if _, err := l.Lend(0, 64<<10, nil); !errors.Is(err, device.ErrClosed) {
		t.Error(err)
	}
	if err := l.Use(newQueue()); !errors.Is(err, device.ErrClosed) {
		t.Error(err)
	}
	a.Return()
	l.Settle()
	if s.Bytes() == nil || *freeA {
		t.Error("given back too early")
	}
	b.Return()
	<-l.Done()
	if !*freeA || !*freeB || s.Bytes() != nil || q.bytes() != 0 || q.open != 0 || q.waits == 0 || !q.closed {
		t.Errorf("free %v %v, %d pinned, %d events, %d waits", *freeA, *freeB, q.bytes(), q.open, q.waits)
	}
}

func TestLendPins(t *testing.T) {
	s := mustCreate(t, mib, Options{Name: "frames"})
	l, q := NewLender(s), newQueue()
	if err := l.Use(q); err != nil {
		t.Fatal(err)
	}
	lend := func(start, n int64) *Loan {
		loan, _ := mustLend(t, l, start<<10, n<<10)
		loan.Return()
		l.Settle()
		q.pass(len(q.queued))
		l.Settle()
		return loan
	}
	for _, part := range [][2]int64{{0, 64}, {64, 64}, {0, 64}, {128, 256}} {
		lend(part[0], part[1])
	}
	if got := l.Stats(); got.PinnedBytes != 384<<10 || q.bytes() != 384<<10 {
		t.Errorf("%+v", got)
	}
	lend(64, 128) // over parts of two
	if got := l.Stats(); got.PinnedBytes != 192<<10 || q.bytes() != 192<<10 {
		t.Errorf("%+v", got)
	}
	q.pinLimit = 100 << 10
	loan := lend(512, 128)
	if err := loan.PinError(); !errors.Is(err, device.ErrPinLimit) || !strings.Contains(err.Error(), `pin 128 KiB of segment "frames", 192 KiB pinned`) {
		t.Error(err)
	}
	if loan := lend(0, 64); loan.PinError() != nil {
		t.Errorf("pinned before: %v", loan.PinError())
	}
	for _, part := range [][2]int64{{-64 << 10, 64 << 10}, {1, 64 << 10}, {0, 1}, {0, 0}, {mib - 4096, 8192}, {1 << 62, 1 << 62}} {
		if _, err := l.Lend(part[0], part[1], nil); !errors.Is(err, device.ErrArgument) {
			t.Errorf("%v: %v", part, err)
		}
	}
	l.Close()
	<-l.Done()
	if q.bytes() != 0 {
		t.Error("still pinned")
	}
}

// Random lending against a model: a part is free exactly when the mark behind
// its return is passed.
func TestLendRandom(t *testing.T) {
	const parts, size = 16, 64 << 10
	random := rand.New(rand.NewPCG(1, 2))
	l, q := NewLender(mustCreate(t, parts*size, Options{})), newQueue()
	if err := l.Use(q); err != nil {
		t.Fatal(err)
	}
	var loans [parts]*Loan
	var free [parts]bool
	var after [parts]int // marks that must be passed
	marks, passed := 0, 0
	for i := range free {
		free[i] = true
	}
	for range 5000 {
		switch i := random.IntN(parts); random.IntN(4) {
		case 0, 1:
			if !free[i] && loans[i] != nil {
				loans[i].Return()
				loans[i], after[i] = nil, -1
			} else if free[i] {
				free[i] = false
				loan, err := l.Lend(int64(i)*size, size, func() { free[i] = true })
				if err != nil {
					t.Fatal(err)
				}
				loans[i] = loan
			}
		case 2:
			l.Settle()
			if n := passed + len(q.queued); n > marks {
				marks = n
			}
			for i := range after {
				if after[i] == -1 {
					after[i] = marks
				}
			}
		case 3:
			n := random.IntN(len(q.queued) + 1)
			q.pass(n)
			passed += n
		}
		for i := range free {
			if free[i] && after[i] != 0 {
				if after[i] == -1 || after[i] > passed {
					t.Fatalf("part %d is free before mark %d; %d are passed", i, after[i], passed)
				}
				after[i] = 0
			}
		}
	}
	for _, loan := range loans {
		if loan != nil {
			loan.Return()
		}
	}
	l.Close()
	<-l.Done()
	for i := range free {
		if !free[i] {
			t.Errorf("part %d is not free", i)
		}
	}
	if q.open != 0 {
		t.Errorf("%d events open", q.open)
	}
}

// On a device, with data: copies from a part are done before it is free.
func TestLendOnDevice(t *testing.T) {
	dev := devicetest.Open(t)
	s := mustCreate(t, mib, Options{})
	l := NewLender(s)
	if err := l.Use(device.Wrapper{Device: dev}); err != nil { // devicetest closes it too
		t.Fatal(err)
	}
	to, err := dev.Alloc(mib)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := dev.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, mib)
	for round := range byte(20) {
		loan, free := mustLend(t, l, 0, mib)
		mem := s.Bytes()
		for i := range mem {
			mem[i] = round
		}
		if err := stream.CopyH2D(to, mem); err != nil {
			t.Fatal(err)
		}
		loan.Return()
		for l.Settle(); !*free; l.Settle() {
		}
		for i := range mem {
			mem[i] = 255
		}
		if err := errors.Join(stream.CopyD2H(got, to), stream.Synchronize()); err != nil {
			t.Fatal(err)
		}
		if got[0] != round || got[mib-1] != round {
			t.Fatalf("round %d: %d, %d", round, got[0], got[mib-1])
		}
	}
	if err := stream.Close(); err != nil {
		t.Error(err)
	}
	l.Close()
	<-l.Done()
	if err := l.Stats().Err; err != nil {
		t.Error(err)
	}
}

// A sparse segment has the memory that was touched, and no more.
func TestOpenSparse(t *testing.T) {
	const n = 1 << 36
	f, err := shmem.CreateAnonymous("sparse", fileBytes(n))
	if err != nil {
		t.Skip(err)
	}
	defer shmem.Close(f)
	self, err := identify()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, headerBytes)
	header{size: n, generation: 1, creator: self}.put(b)
	if _, err := f.WriteAt(b, 0); err != nil {
		t.Fatal(err)
	}
	s, err := Open(f, OpenOptions{Sparse: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.Bytes()[n-1] = 1
	if got := s.Bytes()[n-1-pagemem.PageSize()]; got != 0 {
		t.Error(got)
	}
}
