package procbench

import (
	"cmp"
	"fmt"
	"sync"
	"time"
)

// samples are the steady copies of one path in one direction.
type samples struct {
	alone, together [][]time.Duration // by process
	totals          []float64         // bytes a second, by repeat
	overlaps        []float64
}

// steadyCopies times all paths in turn, by processes that hold all kinds of
// memory.
func (b *bench) steadyCopies() error {
	if err := b.step("checking all copies"); err != nil {
		return err
	}
	if err := b.startAll(); err != nil {
		return err
	}
	for _, p := range paths {
		if b.whySkipped(p) != nil {
			continue
		}
		_, err := b.all(request{Op: opCheck, Memory: p.memory, Staged: p.staged})
		if refused(err) {
			b.skipPath(err, p)
		} else if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	for range b.o.Repeats {
		for _, p := range paths {
			for _, toHost := range directions {
				if err := b.step(p.name + " " + direction(toHost)); err != nil {
					return err
				}
				if b.whySkipped(p) != nil {
					continue
				}
				if err := b.repeat(p, toHost); err != nil {
					return fmt.Errorf("%s %s: %w", p.name, direction(toHost), err)
				}
			}
		}
	}
	return nil
}

// startAll starts all processes and gives each all kinds of memory.
func (b *bench) startAll() error {
	for i := range b.o.Procs {
		w, err := b.start(i)
		if err != nil {
			return err
		}
		b.workers = append(b.workers, w)
		opened, err := w.call(request{Op: opOpen, Device: b.dev.Info().ID}, nil)
		if err != nil {
			return err
		}
		b.note(OpenDevice, opened.Took)
		for _, p := range paths {
			if p.staged || b.whySkipped(p) != nil {
				continue // it is the memory of another path
			}
			err := b.give(w, p.memory)
			if refused(err) {
				b.skip(err, p.memory)
			} else if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
	}
	return nil
}

// all asks all processes at once and returns their answers in order, or the
// first error: what fails in one usually fails in most.
func (b *bench) all(req request) ([]reply, error) {
	replies := make([]reply, len(b.workers))
	errs := make([]error, len(b.workers))
	var group sync.WaitGroup
	for i, w := range b.workers {
		group.Go(func() { replies[i], errs[i] = w.call(req, nil) })
	}
	group.Wait()
	return replies, cmp.Or(errs...)
}

// repeat times one copy by each process alone, and one by all together.
func (b *bench) repeat(p path, toHost bool) error {
	id := copyID{p.name, toHost}
	s := b.steady[id]
	if s == nil {
		n := len(b.workers)
		s = &samples{alone: make([][]time.Duration, n), together: make([][]time.Duration, n)}
		b.steady[id] = s
	}
	req := request{Op: opCopy, Memory: p.memory, Staged: p.staged, ToHost: toHost}
	for i, w := range b.workers {
		rep, err := w.call(req, nil)
		if err != nil {
			return err
		}
		s.alone[i] = append(s.alone[i], rep.Took)
	}
	req.Together = true
	replies, err := b.all(req)
	if err != nil {
		return err
	}
	for i, rep := range replies {
		s.together[i] = append(s.together[i], rep.Took)
	}
	s.totals = append(s.totals, total(replies, b.o.Size))
	s.overlaps = append(s.overlaps, overlaps(replies)...)
	return nil
}

// total is the rate of all processes together, in bytes a second, over everything
// that each of them copied, n bytes at a time. Summing only the timed copies would
// leave out the time during which a process had no processor.
func total(replies []reply, n int64) float64 {
	sum := 0.0
	for _, r := range replies {
		sum += float64(n*r.Copies) / float64(r.End-r.Begin) * 1e9
	}
	return sum
}

// overlaps returns, for each timed copy, the fraction of it during which all other
// processes were copying too.
func overlaps(replies []reply) []float64 {
	var shares []float64
	for i, r := range replies {
		from, to := r.Start, r.Start+int64(r.Took)
		for j, other := range replies {
			if j != i {
				from, to = max(from, other.Begin), min(to, other.End)
			}
		}
		shares = append(shares, max(0, float64(to-from))/float64(r.Took))
	}
	return shares
}
