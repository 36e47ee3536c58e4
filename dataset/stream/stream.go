package stream

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/pinion-gpu/pinion/internal/errs"
	"github.com/pinion-gpu/pinion/sampler"
)

// Record is one sample of a stream.
type Record struct {
	Key     string // what the names of its members have in common
	Name    string // for messages: the stream's name and the key
	Label   int32  // -1: none
	Members []Member
}

// Member is one file of a record.
type Member struct {
	Extension string // "jpg", or "seg.png"
	Content   []byte
}

// Member returns the content of the first member that has one of those
// extensions, the first of them that there is; nil without one. Case does not
// count.
func (r *Record) Member(extensions ...string) []byte {
	for _, e := range extensions {
		for _, m := range r.Members {
			if strings.EqualFold(m.Extension, e) {
				return m.Content
			}
		}
	}
	return nil
}

// Position is a place in a stream: of an epoch from 0, behind so many of its
// records. The zero value is the beginning.
type Position struct {
	Epoch   int   `json:"epoch"`
	Records int64 `json:"records"`
}

// Stream is records that come one after the other. Its methods make other
// streams and leave it as it is.
type Stream struct {
	name string
	// each calls yield with the records from a position on until that returns
	// false. A second stream of the same source may be read beside it.
	each func(ctx context.Context, from Position, yield func(*Record) error) error
	once bool // it cannot be read again
}

// New makes a stream of records: each calls yield with all of an epoch, in
// order, and returns what yield returns. The name is for messages.
func New(name string, each func(ctx context.Context, epoch int, yield func(*Record) error) error) *Stream {
	return &Stream{name: name, each: func(ctx context.Context, from Position, yield func(*Record) error) error {
		return each(ctx, from.Epoch, after(from.Records, yield))
	}}
}

// Repeats returns nil, or why the stream cannot be read a second time, as one from
// a pipe cannot.
func (s *Stream) Repeats() error {
	if s.once {
		return fmt.Errorf("%s: %w", s.name, errOnce)
	}
	return nil
}

// Name returns the name of the source.
func (s *Stream) Name() string { return s.name }

// errEnough ends a stream that goes on, when nobody wants more of it.
var errEnough = fmt.Errorf("enough of a stream")

// Records returns the records from a position to the end of its epoch. A record
// belongs to the caller. An error is the last thing that comes.
func (s *Stream) Records(ctx context.Context, from Position) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		if from.Epoch < 0 || from.Records < 0 {
			yield(nil, fmt.Errorf("%s: %w: position %+v", s.name, errs.ErrArgument, from))
			return
		}
		wanted := true
		err := s.each(ctx, from, func(r *Record) error {
			if err := ctx.Err(); err != nil {
				return context.Cause(ctx)
			}
			if wanted = yield(r, nil); !wanted {
				return errEnough
			}
			return nil
		})
		if wanted && err != nil {
			yield(nil, err)
		}
	}
}

// after is yield without its first n records.
func after(n int64, yield func(*Record) error) func(*Record) error {
	return func(r *Record) error {
		if n > 0 {
			n--
			return nil
		}
		return yield(r)
	}
}

// of makes a stream of s.
func (s *Stream) of(each func(ctx context.Context, from Position, yield func(*Record) error) error) *Stream {
	return &Stream{name: s.name, each: each, once: s.once}
}

// Filter is the records that keep wants. Its error ends the stream.
func (s *Stream) Filter(keep func(*Record) (bool, error)) *Stream {
	return s.of(func(ctx context.Context, from Position, yield func(*Record) error) error {
		yield = after(from.Records, yield)
		return s.each(ctx, Position{Epoch: from.Epoch}, func(r *Record) error {
			ok, err := keep(r)
			if err != nil {
				return fmt.Errorf("%s: %w", r.Name, err)
			}
			if !ok {
				return nil
			}
			return yield(r)
		})
	})
}

// Map is the records as change leaves them. Its error ends the stream. Records
// before the position that is read from are not changed.
func (s *Stream) Map(change func(*Record) error) *Stream {
	return s.of(func(ctx context.Context, from Position, yield func(*Record) error) error {
		return s.each(ctx, from, func(r *Record) error {
			if err := change(r); err != nil {
				return fmt.Errorf("%s: %w", r.Name, err)
			}
			return yield(r)
		})
	})
}

// Take is the first n records of each epoch.
func (s *Stream) Take(n int64) *Stream {
	return s.of(func(ctx context.Context, from Position, yield func(*Record) error) error {
		left := n - from.Records
		if left <= 0 {
			return nil
		}
		enough := false
		err := s.each(ctx, from, func(r *Record) error {
			if err := yield(r); err != nil {
				return err
			}
			if left--; left == 0 {
				enough = true
				return errEnough
			}
			return nil
		})
		if enough {
			return nil
		}
		return err
	})
}

// Shard is every world-th record, from record rank on: the part of one process
// of several, numbered from 0. Each of them reads the whole source. A rank that
// there is not gives a stream that fails with [errs.ErrArgument].
func (s *Stream) Shard(rank, world int) *Stream {
	return s.of(func(ctx context.Context, from Position, yield func(*Record) error) error {
		if rank < 0 || rank >= world {
			return fmt.Errorf("%s: %w: rank %d of %d", s.name, errs.ErrArgument, rank, world)
		}
		from.Records *= int64(world)
		at := 0
		return s.each(ctx, from, func(r *Record) error {
			mine := at == rank
			at = (at + 1) % world
			if !mine {
				return nil
			}
			return yield(r)
		})
	})
}

// Shuffle is the records in an order drawn from seed and epoch: n of them are
// held, and a random one of those makes room for the next, as in WebDataset and
// tf.data. n below 1 gives a stream that fails with [errs.ErrArgument].
func (s *Stream) Shuffle(n int, seed uint64) *Stream {
	return s.shuffle(n, func() uint64 { return seed })
}

// shuffle is Shuffle with a seed that is asked for when a pass begins.
func (s *Stream) shuffle(n int, seed func() uint64) *Stream {
	return s.of(func(ctx context.Context, from Position, yield func(*Record) error) error {
		buffer, err := sampler.NewShuffleBuffer[*Record](n, seed(), from.Epoch)
		if err != nil {
			return fmt.Errorf("%s: shuffle: %w", s.name, err)
		}
		yield = after(from.Records, yield)
		err = s.each(ctx, Position{Epoch: from.Epoch}, func(r *Record) error {
			if out, ok := buffer.Push(r); ok {
				return yield(out)
			}
			return nil
		})
		for err == nil {
			out, ok := buffer.Pop()
			if !ok {
				break
			}
			err = yield(out)
		}
		return err
	})
}
