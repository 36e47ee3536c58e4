package tier

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pinion-gpu/pinion/device"
)

// Step is a part of a [Stream], such as a layer: arrays, and work that uses them.
type Step struct {
	Name string
	Use  []Access

	// Run queues work on s that uses the arrays of l. It must not wait for s, nor
	// release l.
	Run func(s device.Stream, l *Lease) error
}

// Stream runs steps again and again whose arrays do not fit on the device together,
// such as the layers of a model. The store knows the order beforehand: it keeps on
// the device what fits, and brings in the rest behind the work of the steps before,
// which never waits for the host. A round that goes forward and then back names its
// steps in that order; the layers at the turn then stay.
//
// A Stream is for one goroutine. Close it when the order no longer holds.
type Stream struct {
	s     *Store
	steps []Step
	order *Order
	marks [2][]device.Event // of a round: before and behind each step
}

// NewStream announces the steps of a round.
func (s *Store) NewStream(steps ...Step) (*Stream, error) {
	var arrays []*Array
	var blank []bool
	most := int64(0) // bytes of a step
	for i, x := range steps {
		if x.Run == nil || len(x.Use) == 0 {
			return nil, fmt.Errorf("tier: stream: %w: step %d has %d arrays and runs %t", device.ErrArgument, i, len(x.Use), x.Run != nil)
		}
		sum := int64(0)
		for _, a := range x.Use {
			if a.array == nil || a.array.s != s {
				return nil, fmt.Errorf("tier: stream: %w: step %d uses an array that is not of this store", device.ErrArgument, i)
			}
			arrays = append(arrays, a.array)
			blank = append(blank, a.mode == overwrite)
			sum += a.array.size
		}
		most = max(most, sum)
	}
	if len(steps) == 0 {
		return nil, fmt.Errorf("tier: stream: %w: no steps", device.ErrArgument)
	}
	t := &Stream{s: s, steps: steps}
	for i := range t.marks {
		for range 2 * len(steps) {
			e, err := s.dev.NewEvent(0)
			if err != nil {
				return nil, errors.Join(err, t.Close())
			}
			t.marks[i] = append(t.marks[i], e)
		}
	}
	t.order = s.announce(arrays, func(o *Order) { o.blank, o.step = blank, most })
	return t, nil
}

// Close withdraws the announcement. No Run may be under way.
func (t *Stream) Close() error {
	var list []error
	for _, marks := range t.marks {
		for _, e := range marks {
			list = append(list, e.Close())
		}
	}
	t.marks = [2][]device.Event{}
	if t.order != nil {
		t.order.Forget()
	}
	return errors.Join(list...)
}

// StreamReport says what rounds took.
type StreamReport struct {
	Rounds  int
	Bytes   int64         // of the arrays used
	Filled  int64         // bytes brought to the device
	Written int64         // bytes brought back
	Time    time.Duration // from the first step to the end of the last
	Compute time.Duration // in steps, by the device's clock
}

// Rate is the bytes of arrays used a second; 0 where no time passed.
func (r StreamReport) Rate() float64 {
	if r.Time <= 0 {
		return 0
	}
	return float64(r.Bytes) / r.Time.Seconds()
}

// Hidden is the share of the copying to the device that was hidden behind computing,
// 0 to 1, on a link that carries so many bytes a second: what the rounds took longer
// than their computing was not.
func (r StreamReport) Hidden(rate float64) float64 {
	copying := float64(r.Filled) / rate
	if copying == 0 {
		return 1
	}
	return min(max(1-(r.Time-r.Compute).Seconds()/copying, 0), 1)
}

// Floor is the least time the rounds could take with so many bytes of arrays kept on
// the device, on a link that carries so many bytes a second: the larger of computing
// and of bringing in the rest.
func (t *Stream) Floor(r StreamReport, kept int64, rate float64) time.Duration {
	rest := r.Bytes - kept*int64(r.Rounds)
	return max(r.Compute, time.Duration(float64(max(rest, 0))/rate*1e9))
}

// Run runs rounds of all steps and waits for them, or until ctx ends. What is queued
// then still runs: wait for the stream before you touch what the steps use. An error
// of a step ends the run.
func (t *Stream) Run(ctx context.Context, stream device.Stream, rounds int) (r StreamReport, err error) {
	before := t.s.Stats()
	start := time.Now()
	for i := range rounds {
		if i >= 2 { // these marks are in use until that round is over
			if err := t.add(ctx, &r, t.marks[i%2]); err != nil {
				return r, err
			}
		}
		if err := t.round(ctx, stream, t.marks[i%2], &r); err != nil {
			return r, err
		}
	}
	for i := max(rounds-2, 0); i < rounds; i++ {
		if err := t.add(ctx, &r, t.marks[i%2]); err != nil {
			return r, err
		}
	}
	r.Time = time.Since(start)
	now := t.s.Stats()
	r.Filled = now.FilledBytes - before.FilledBytes
	r.Written = now.WrittenBytes - before.WrittenBytes
	return r, nil
}

// round queues all steps once.
func (t *Stream) round(ctx context.Context, stream device.Stream, marks []device.Event, r *StreamReport) error {
	for i, step := range t.steps {
		if err := t.step(ctx, stream, step, marks[2*i], marks[2*i+1]); err != nil {
			return fmt.Errorf("tier: stream: step %d %s: %w", i, step.Name, err)
		}
		for _, a := range step.Use {
			r.Bytes += a.array.bytes
		}
	}
	return nil
}

// step queues one step between two marks.
func (t *Stream) step(ctx context.Context, stream device.Stream, x Step, begin, end device.Event) (err error) {
	lease, err := t.s.Use(ctx, stream, x.Use...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lease.Release()) }() // also when Run panics
	if err := stream.Record(begin); err != nil {
		return err
	}
	if err := x.Run(stream, lease); err != nil {
		return err
	}
	return stream.Record(end)
}

// add waits for a round and adds its computing.
func (t *Stream) add(ctx context.Context, r *StreamReport, marks []device.Event) error {
	for i := 0; i < len(marks); i += 2 {
		if err := device.Wait(ctx, marks[i+1]); err != nil {
			return err
		}
		d, err := marks[i+1].Since(marks[i])
		if err != nil {
			return err
		}
		r.Compute += d
	}
	r.Rounds++
	return nil
}
