package outofcore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pinion-gpu/pinion/device"
)

// lanes are queues of work on streams that wait for each other's operations.
// Each is filled by one goroutine, which the host keeps only a few operations
// ahead of the device: a context that ends then stops the work soon.
type lanes struct {
	ctx  context.Context
	stop context.CancelFunc

	mu      sync.Mutex
	changed sync.Cond // an operation was queued, or ctx has ended
	err     error     // the first one

	goroutines sync.WaitGroup
}

func newLanes(ctx context.Context) *lanes {
	l := &lanes{}
	l.changed.L = &l.mu
	l.ctx, l.stop = context.WithCancel(ctx)
	context.AfterFunc(l.ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.changed.Broadcast()
	})
	return l
}

// run fills a lane in a goroutine of its own. An error ends all of them.
func (l *lanes) run(fill func() error) {
	l.goroutines.Go(func() {
		if err := fill(); err != nil {
			l.fail(err)
		}
	})
}

func (l *lanes) fail(err error) {
	l.mu.Lock()
	if l.err == nil && l.ctx.Err() == nil { // later ones are its consequences
		l.err = err
	}
	l.mu.Unlock()
	l.stop()
}

// wait waits for the goroutines and returns the first error, or that of the
// context they were made with.
func (l *lanes) wait(outer context.Context) error {
	l.goroutines.Wait()
	l.stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	return outer.Err()
}

// lane is one queue.
type lane struct {
	*lanes
	name   string
	stream device.Stream
	begin  device.Event   // before everything
	starts []device.Event // of operation n: starts[n % len(starts)]
	marks  []device.Event // its end, in the same way
	of     []matrix       // what it moves or makes a part of, in the same way
	queued int            // operations
	passed int            // that the host has seen done
	took   Lane           // they took
	each   [3]float64     // those of A, B and C took
}

// lane makes a lane that is at most ahead operations in front of the device.
func (l *lanes) lane(dev device.Device, name string, ahead int) (n *lane, err error) {
	n = &lane{lanes: l, name: name}
	if n.stream, err = dev.NewStream(); err != nil {
		return nil, err
	}
	event := func() (e device.Event) {
		if err == nil {
			e, err = dev.NewEvent(device.EventBlockingSync)
		}
		return e
	}
	n.begin = event()
	for range ahead {
		n.starts, n.marks, n.of = append(n.starts, event()), append(n.marks, event()), append(n.of, 0)
	}
	if err == nil {
		err = n.stream.Record(n.begin)
	}
	if err != nil {
		return nil, errors.Join(err, n.close())
	}
	return n, nil
}

// push queues the next operation, with a tile of a matrix.
func (n *lane) push(of matrix, queue func(s device.Stream) error) error {
	number := n.queued // this goroutine alone changes it
	if number-n.passed == len(n.marks) {
		if err := n.retire(); err != nil {
			return err
		}
	}
	if err := n.ctx.Err(); err != nil {
		return err
	}
	if err := n.stream.Record(n.starts[number%len(n.starts)]); err != nil {
		return fmt.Errorf("%s: %w", n.name, err)
	}
	n.of[number%len(n.of)] = of
	if err := queue(n.stream); err != nil {
		return fmt.Errorf("%s: %w", n.name, err)
	}
	if err := n.stream.Record(n.mark(number)); err != nil {
		return fmt.Errorf("%s: %w", n.name, err)
	}
	n.mu.Lock()
	n.queued++
	n.changed.Broadcast()
	n.mu.Unlock()
	return nil
}

// retire waits for the oldest operation that is queued.
func (n *lane) retire() error {
	start, end := n.starts[n.passed%len(n.starts)], n.mark(n.passed)
	err := device.Wait(n.ctx, end)
	var from, took time.Duration
	if err == nil {
		from, err = start.Since(n.begin)
	}
	if err == nil {
		took, err = end.Since(start)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", n.name, err)
	}
	n.took.add(from.Seconds(), took.Seconds())
	n.each[n.of[n.passed%len(n.of)]] += took.Seconds()
	n.mu.Lock()
	n.passed++
	n.mu.Unlock()
	return nil
}

func (n *lane) mark(number int) device.Event { return n.marks[number%len(n.marks)] }

// follow has what this lane queues from now on wait for an operation of
// another. The host waits until that is queued.
func (n *lane) follow(other *lane, number int) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for other.queued <= number && n.ctx.Err() == nil {
		n.changed.Wait()
	}
	if err := n.ctx.Err(); err != nil {
		return err
	}
	if number < other.passed {
		return nil
	}
	// While mu is held nobody records the mark anew.
	return n.stream.Wait(other.mark(number))
}

// finish waits for all that is queued.
func (n *lane) finish() error {
	for n.passed < n.queued {
		if err := n.retire(); err != nil {
			return err
		}
	}
	return nil
}

// close waits for the stream and gives it back.
func (n *lane) close() error {
	err := n.stream.Close()
	for _, e := range append(append([]device.Event{n.begin}, n.starts...), n.marks...) {
		if e != nil {
			err = errors.Join(err, e.Close())
		}
	}
	return err
}
