package transfer

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
)

// sharedRows is a batch inside the device on its way. Describing 16 KiB takes
// the host half as long as copying them takes the device, and queueing a part
// as long as copying a thousand. So goroutines share the parts of a long
// batch, and each part has a stream of its own: its list goes to the device
// beside the kernels of others, and its kernel begins as that of the part
// before runs out.
type sharedRows struct {
	ctx context.Context
	job *rowsJob
	m   spanMover
	s   *copyStream
	n   int // rows

	used [rowsInFlight]bool // the slot's event is recorded; whoever holds the slot has it

	mu         sync.Mutex
	next, most int // the rows that nobody has taken, and how many the next part takes
	err        error
	taken      sync.WaitGroup // parts
}

// beside moves the rows of a job inside the device.
func (s *copyStream) beside(ctx context.Context, j *rowsJob, m spanMover) error {
	r := &sharedRows{ctx: ctx, job: j, m: m, s: s, n: j.rows.count(), most: firstRows}
	for range min(r.n/fewBlocks, rowsInFlight, runtime.GOMAXPROCS(0)) - 1 {
		go r.work() // ends at once when there is nothing left to take
	}
	r.work()
	r.taken.Wait()
	err := r.err
	if err == nil {
		// Beside the copies.
		if err = j.rows.overlap(); err != nil {
			err = fmt.Errorf("transfer: batch: %w", err)
		}
	}
	for slot, used := range r.used {
		switch {
		case used && r.err == nil:
			err = errors.Join(s.events[slot].Synchronize(), err)
		case used: // something may be queued behind the event
			err = errors.Join(err, s.lists.streams[slot].Synchronize())
		}
	}
	return err
}

// work moves parts until there are none.
func (r *sharedRows) work() {
	for {
		from, to := r.take()
		if from == to {
			return
		}
		if err := r.move(from, to); err != nil {
			r.mu.Lock()
			if r.err == nil {
				r.err = err
			}
			r.mu.Unlock()
		}
		r.taken.Done()
	}
}

// take returns the rows of the next part, if any.
func (r *sharedRows) take() (from, to int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil || r.next == r.n {
		return 0, 0
	}
	from, to = r.next, min(r.next+r.most, r.n)
	r.next, r.most = to, nextRows(r.most, r.n-to)
	r.taken.Add(1)
	return from, to
}

// move queues the copies of some rows, in several parts where they have many
// bytes.
func (r *sharedRows) move(from, to int) error {
	for from < to {
		slot := <-r.m.lists.free // as many as goroutines, so there is one
		p, err := r.queue(slot, from, to)
		r.m.lists.free <- slot
		if err != nil {
			return err
		}
		from = p.to
		r.mu.Lock()
		r.job.rows.add(p)
		r.mu.Unlock()
	}
	return nil
}

// queue queues one part in that slot, when the part before that had it is done.
func (r *sharedRows) queue(slot, from, to int) (p rowsPart, err error) {
	stream, event := r.m.lists.streams[slot], r.s.events[slot]
	if r.used[slot] {
		err = event.Synchronize()
	} else if r.job.after != nil {
		err = stream.Wait(r.job.after)
	}
	if err = errors.Join(err, r.ctx.Err()); err != nil {
		return p, err
	}
	if p, err = r.job.rows.part(from, to-from, partRowBytes); err != nil {
		return p, fmt.Errorf("transfer: batch: %w", err)
	}
	r.used[slot] = true
	if err := r.m.queue(stream, stream, slot, p); err != nil {
		return p, err
	}
	return p, stream.Record(event)
}
