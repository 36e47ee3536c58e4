package procbench

import (
	"errors"
	"fmt"
	"net"
	"time"
)

// firstCopies times, for every path, what new processes do first.
func (b *bench) firstCopies() error {
	for _, p := range paths {
		for i := range b.o.Procs {
			if err := b.step("first copy, " + p.name); err != nil {
				return err
			}
			if b.whySkipped(p) != nil {
				continue
			}
			err := b.firstCopy(i, p)
			if refused(err) {
				b.skipPath(err, p)
				continue
			}
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
	}
	return nil
}

// firstCopy runs process i from its start to its end.
func (b *bench) firstCopy(i int, p path) (err error) {
	w, err := b.start(i)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.end(err == nil || refused(err))) }()
	opened, err := w.call(request{Op: opOpen, Device: b.dev.Info().ID}, nil)
	if err != nil {
		return err
	}
	b.note(OpenDevice, opened.Took)
	if err := b.give(w, p.memory); err != nil {
		return err
	}
	for _, toHost := range directions {
		rep, err := w.call(request{Op: opFirst, Memory: p.memory, Staged: p.staged, ToHost: toHost}, nil)
		if err != nil {
			return err
		}
		id := copyID{p.name, toHost}
		b.firsts[id] = append(b.firsts[id], rep.Took)
	}
	return nil
}

// give makes a process take memory of one kind.
func (b *bench) give(w *worker, m memory) error {
	req := request{Op: opTake, Memory: m, Size: b.o.Size, Seed: w.seed}
	var attach func(*net.UnixConn) error
	switch m {
	case serialised:
		fill(b.sent.Bytes(), w.seed)
		attach = func(conn *net.UnixConn) error {
			_, err := conn.Write(b.sent.Bytes())
			return err
		}
	case shared:
		req.Offset = int64(w.number-1) * b.part
		fill(b.segment.Bytes()[req.Offset:][:b.o.Size], w.seed)
		attach = b.segment.Send
	}
	rep, err := w.call(req, attach)
	if err != nil {
		return err
	}
	switch m {
	case private:
		b.note(PinPrivate, rep.Took)
	case serialised:
		b.note(SendPrivate, rep.Took)
	case shared:
		b.note(MapShared, rep.Map)
		b.note(PinShared, rep.Took)
	}
	return nil
}

func (b *bench) note(what string, d time.Duration) { b.times[what] = append(b.times[what], d) }
