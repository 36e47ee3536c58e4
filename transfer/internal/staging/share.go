package staging

import (
	"errors"
	"runtime"
	"sync/atomic"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/linger"
)

// share is a copy of memory that fits into one ring. Its time goes to waiting
// for others rather than to moving bytes: so all copiers work in small pieces on
// the slots of the caller's ring, and the caller alone queues transfers, each of
// many pieces. Nobody takes a lock, and the caller sleeps nowhere. (Of 1 MiB in
// chunks that each copier queues for itself, half the time went to the driver's
// lock and to waking the caller: 15 GB/s on an H200 machine, and 25 like this.)
type share struct {
	state atomic.Int32 // shareFree and so on
	hands atomic.Int32 // helpers that look at it or work on it

	// Set by the caller before the share is open.
	memory
	ring   *ring
	slot   int64 // bytes of a slot of ring
	pieces int32

	sharing *atomic.Int32 // Stager.sharing
	helpers atomic.Int32  // that may work on it

	// Apart from each other: all copiers look at limit while they wait, and
	// write to the others with each piece.
	_     [64]byte
	limit atomic.Int32 // the first piece that may not be taken yet
	_     [64]byte
	next  atomic.Int32 // the first piece that nobody took
	_     [64]byte
	left  atomic.Int32 // pieces that are not copied
	done  [shareMost / sharePiece]atomic.Bool
}

const (
	shareFree int32 = iota
	shareClaimed
	shareOpen
	shareTaken // nobody joins any more
)

const (
	sharePiece = 32 << 10 // a core copies it in the time that queueing a transfer takes
	shareLeast = 64 << 10
	shareMost  = 8 << 20

	shareCopiers = 8 // fill the link; of more, some only get in the way

	// Transfers are few, since each takes the caller and the device some
	// microseconds. To the device the first is small, so that the link begins
	// early; to the host all are, so that copiers do.
	firstTransfer  = 128 << 10
	deviceTransfer = 1 << 20
	hostTransfer   = 512 << 10

	hotSpins = 64 // some ten microseconds
)

// shareable reports whether n bytes are better shared.
func (s *Stager) shareable(n int64, p Plan) bool {
	o := &s.options
	return p.Copiers > 1 && n >= shareLeast && n <= min(shareMost, int64(o.Slots)*o.SlotBytes) && o.SlotBytes%sharePiece == 0
}

// openShare offers c to the helpers. It returns nil when no ring, or no place
// for a share, is free.
func (s *Stager) openShare(c Copy, p Plan) *share {
	var sh *share
	for i := range s.shares {
		if s.shares[i].state.CompareAndSwap(shareFree, shareClaimed) {
			sh = &s.shares[i]
			break
		}
	}
	if sh == nil {
		return nil
	}
	n := int64(len(c.Host))
	sh.memory, sh.slot = memory{c, p.PastCaches}, s.options.SlotBytes
	sh.pieces = int32((n + sharePiece - 1) / sharePiece)
	helpers := min(int32(p.Copiers), sh.pieces, shareCopiers) - 1
	sh.helpers.Store(helpers)
	for i := range sh.pieces {
		sh.done[i].Store(false)
	}
	sh.left.Store(sh.pieces)
	sh.limit.Store(0)
	if !c.ToHost {
		sh.limit.Store(sh.pieces)
	}
	sh.next.Store(0)

	s.mu.Lock()
	if s.lone == 0 || len(s.rings) > 1 {
		sh.ring = s.freeRing(n)
	}
	if sh.ring == nil {
		s.mu.Unlock()
		sh.memory = memory{}
		sh.state.Store(shareFree)
		return nil
	}
	sh.sharing = &s.sharing
	s.sharing.Add(1)
	sh.state.Store(shareOpen)
	s.mu.Unlock()
	for range helpers - s.awake.Load() {
		s.work.Signal()
	}
	return sh
}

// closeShare ends sh, which nobody touches any more when it returns.
func (s *Stager) closeShare(sh *share) {
	for sh.hands.Load() > 0 {
		runtime.Gosched()
	}
	r := sh.ring
	sh.memory, sh.ring = memory{}, nil // let go of the caller's memory
	sh.state.Store(shareFree)
	s.release(r)
}

// helpShares works on shares and reports whether there were any.
func (s *Stager) helpShares() (helped bool) {
	for i := range s.shares {
		sh := &s.shares[i]
		if sh.state.Load() != shareOpen {
			continue
		}
		// Who takes the last piece closes it; the caller waits until there
		// are no hands.
		if n := sh.hands.Add(1); sh.state.Load() == shareOpen && n <= sh.helpers.Load() {
			sh.help()
			helped = true
		}
		sh.hands.Add(-1)
	}
	return helped
}

// help copies pieces until all are taken.
func (sh *share) help() {
	for spins := 0; sh.next.Load() < sh.pieces; {
		if !sh.copyPiece() {
			spins = pause(spins) // the next pieces are still on the link
		}
	}
}

// pause is one round of a wait for others, which has spun so often before. Now
// and then it lets others run.
func pause(spins int) int {
	linger.Pause()
	if spins++; spins%hotSpins == 0 {
		runtime.Gosched()
	}
	return spins
}

// copyPiece copies the next piece that may be taken, if there is one.
func (sh *share) copyPiece() bool {
	for {
		i := sh.next.Load()
		if i >= sh.limit.Load() {
			return false
		}
		if !sh.next.CompareAndSwap(i, i+1) {
			continue
		}
		if i+1 == sh.pieces {
			sh.taken()
		}
		at := int64(i) * sharePiece
		host := sh.Host[at:min(at+sharePiece, int64(len(sh.Host)))]
		staged := sh.staged(at, int64(len(host)))
		if sh.ToHost {
			sh.move(host, staged)
		} else {
			sh.move(staged, host)
		}
		sh.done[i].Store(true)
		sh.left.Add(-1)
		return true
	}
}

// taken says that there is nothing left for more helpers to do.
func (sh *share) taken() {
	sh.state.Store(shareTaken)
	sh.sharing.Add(-1)
}

// staged is where n bytes at offset, which do not cross slots, are in the ring.
func (sh *share) staged(offset, n int64) []byte {
	return sh.ring.slots[offset/sh.slot].buffer.Bytes()[offset%sh.slot:][:n]
}

// transfer is the size of the transfer at offset.
func (sh *share) transfer(offset int64) int64 {
	size := int64(deviceTransfer)
	switch {
	case sh.ToHost:
		size = hostTransfer
	case offset == 0:
		size = firstTransfer
	}
	return min(size, int64(len(sh.Host))-offset, sh.slot-offset%sh.slot)
}

// run carries out the caller's part.
func (sh *share) run(dev device.Device) (err error) {
	defer func() {
		if err != nil { // take the pieces away, and end what is queued
			if sh.next.Swap(sh.pieces) < sh.pieces {
				sh.taken()
			}
			err = errors.Join(err, sh.ring.stream.Synchronize())
		}
	}()
	if sh.ToHost {
		return sh.toHost(dev)
	}
	return sh.toDevice()
}

func (sh *share) toDevice() error {
	n, s := int64(len(sh.Host)), sh.ring.stream
	var sent int64
	spins := 0
	ready := int32(0) // pieces from the first on that are in their slots
	for sent < n {
		size := sh.transfer(sent)
		for ready < sh.pieces && sh.done[ready].Load() {
			ready++
		}
		if min(int64(ready)*sharePiece, n) < sent+size {
			if !sh.copyPiece() {
				spins = pause(spins) // others copy the ones that it needs
			}
			continue
		}
		if err := sh.Queue(s, sh.staged(sent, size), sent); err != nil {
			return err
		}
		sent += size
	}
	end := sh.ring.slots[0].event
	if err := s.Record(end); err != nil {
		return err
	}
	return end.Synchronize()
}

func (sh *share) toHost(dev device.Device) error {
	n, s := int64(len(sh.Host)), sh.ring.stream
	var queued, arrived int // transfers
	spins := 0
	var sent int64
	var ends [shareMost / sharePiece]int64 // of the transfers
	for sh.left.Load() > 0 {
		if sent < n {
			size := sh.transfer(sent)
			mark, err := sh.ring.mark(dev, queued)
			if err != nil {
				return err
			}
			if err := sh.Queue(s, sh.staged(sent, size), sent); err != nil {
				return err
			}
			if err := s.Record(mark); err != nil {
				return err
			}
			sent += size
			ends[queued] = sent
			queued++
			if queued == 1 {
				continue // the link has not begun yet
			}
		}
		if arrived < queued {
			done, err := sh.ring.marks[arrived].Done()
			if err != nil {
				return err
			}
			if done {
				sh.limit.Store(int32((ends[arrived] + sharePiece - 1) / sharePiece))
				arrived++
				continue
			}
		}
		if sent == n && !sh.copyPiece() {
			spins = pause(spins)
		}
	}
	return nil
}

// unhelped reports whether a share may want another helper. Who asks holds
// Stager.mu, so that no share opens between the answer and its sleep.
func (s *Stager) unhelped() bool {
	for i := range s.shares {
		sh := &s.shares[i]
		if sh.state.Load() == shareOpen && sh.hands.Load() < sh.helpers.Load() {
			return true
		}
	}
	return false
}
