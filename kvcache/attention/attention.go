package attention

import (
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
)

// Layout says where the keys and values of a layer are: in blocks, one behind the other, in each
// of which they are arrays of [BlockTokens, Heads, Width].
type Layout struct {
	Type dtype.DType // of keys, values, queries and results: F16 or BF16

	Pages       device.Ptr // where the first block begins, a multiple of 16
	Blocks      int        // number of blocks
	BlockBytes  int64      // from one block to the next, a multiple of 16
	BlockTokens int        // a multiple of 16

	Keys, Values int64 // where they begin in a block, multiples of 16

	Heads int // of keys and values
	Width int // elements of a head: 64 or 128
}

// Rows are new tokens of sequences. What is in device memory is read when the work runs.
type Rows struct {
	N        int        // rows, up to 1<<24; with 0 there is no work, and the rest may be zero
	Sequence device.Ptr // of each row, its line in Tables, or -1 for a row that stands for none; N int32
	Length   device.Ptr // of each row, how many tokens there are up to and with its own; N int32

	// Tables holds the block numbers of each sequence, of which block i has the tokens from
	// i x BlockTokens on; [Sequences, TableWidth] int32. Numbers outside [0, Blocks) stand for no
	// block, as where a window has passed it: nothing is stored there or attended to. Nor is a
	// token stored that the table has no block for; attention ends where the table does.
	Tables                device.Ptr
	Sequences, TableWidth int
}

// Query is what [Set.Attend] computes.
type Query struct {
	Rows
	Query device.Ptr // [N, Heads, Width]
	Out   device.Ptr // [N, Heads, Width]; zeros where a row has nothing to attend to
	Heads int        // a multiple of the layout's; head i attends to keys of head i/(Heads/Layout.Heads)

	Scale float32 // of the products of queries and keys; default (0): 1/sqrt(Width)

	// Window is how many of the last tokens a row attends to, and Sinks how many of the first,
	// besides. Default (0): all.
	Window, Sinks int

	// MaxLength is the most that a Length can be. It decides into how many parts rows are
	// divided, not what they attend to. Default (0): all tokens of a line of Tables.
	MaxLength int

	// Scratch is memory of at least [Set.ScratchBytes] of this query, at a multiple of 16, which
	// no other call uses meanwhile. May be zero where none is needed.
	Scratch      device.Ptr
	ScratchBytes int64
}

const (
	tileTokens = 16 // blocks are multiples of it
	mostParts  = 128
	partTokens = 128 // a part has at least so many
	partCost   = 64  // and costs as much as this many tokens more
	mostRounds = 16  // of thread blocks, in which the end of the last one is little
	mostRows   = 1 << 24
)

func (l Layout) check() error {
	switch {
	case l.Type != dtype.F16 && l.Type != dtype.BF16:
		return fmt.Errorf("%w: keys and values of %v, not f16 or bf16", device.ErrNotSupported, l.Type)
	case l.Width != 64 && l.Width != 128:
		return fmt.Errorf("%w: heads of %d elements, not 64 or 128", device.ErrNotSupported, l.Width)
	case l.Blocks < 1 || l.Blocks > math.MaxInt32 || l.Heads < 1 || l.Heads > 1<<16 || l.BlockTokens < 1 || l.BlockTokens > 1<<20 || l.BlockTokens%tileTokens != 0:
		return fmt.Errorf("%w: %d blocks of %d tokens, with %d heads: tokens of a block are a multiple of %d",
			device.ErrArgument, l.Blocks, l.BlockTokens, l.Heads, tileTokens)
	case l.Pages == 0 || (uint64(l.Pages)|uint64(l.BlockBytes)|uint64(l.Keys)|uint64(l.Values))%16 != 0:
		return fmt.Errorf("%w: blocks of %d bytes at %#x, with keys at %d and values at %d, are not all multiples of 16",
			device.ErrArgument, l.BlockBytes, uint64(l.Pages), l.Keys, l.Values)
	}
	n := l.arrayBytes()
	if l.Keys < 0 || l.Values < 0 || l.Keys > l.BlockBytes-n || l.Values > l.BlockBytes-n || l.Keys < l.Values+n && l.Values < l.Keys+n {
		return fmt.Errorf("%w: keys and values, %d bytes each, at %d and %d of a block of %d bytes", device.ErrArgument, n, l.Keys, l.Values, l.BlockBytes)
	}
	if high, low := bits.Mul64(uint64(l.Blocks), uint64(l.BlockBytes)); high != 0 || low > math.MaxInt64 {
		return fmt.Errorf("%w: %d blocks of %d bytes", device.ErrArgument, l.Blocks, l.BlockBytes)
	}
	return nil
}

// arrayBytes is the size of the keys of a block, and of its values.
func (l Layout) arrayBytes() int64 { return int64(l.BlockTokens) * int64(l.Heads) * int64(l.Width) * 2 }

// span is an operand of rows.
type span struct {
	name  string
	p     device.Ptr
	align uint64
}

// check looks at shapes.
func (r Rows) check(l Layout) error {
	if r.N < 0 || r.N > mostRows || r.N > 0 && (r.Sequences < 1 || r.TableWidth < 1) || r.Sequences < 0 || r.Sequences > math.MaxInt32 ||
		r.TableWidth < 0 || r.TableWidth > math.MaxInt32/l.BlockTokens {
		return fmt.Errorf("%w: %d rows of %d sequences with %d blocks of %d tokens: at most %d rows, and 31 bits of tokens",
			device.ErrArgument, r.N, r.Sequences, r.TableWidth, l.BlockTokens, mostRows)
	}
	return nil
}

// checkSpans looks at addresses, and those of more operands.
func (r Rows) checkSpans(more ...span) error {
	if r.N == 0 {
		return nil
	}
	for _, s := range append(more, span{"Sequence", r.Sequence, 4}, span{"Length", r.Length, 4}, span{"Tables", r.Tables, 4}) {
		if s.p == 0 || uint64(s.p)%s.align != 0 {
			return fmt.Errorf("%w: %s is at %#x, not at a multiple of %d", device.ErrArgument, s.name, uint64(s.p), s.align)
		}
	}
	return nil
}

// plan is a query with its defaults, and how it is divided.
type plan struct {
	Query
	l         Layout
	kind      kind
	group     int // query heads of a head
	together  int // of which a thread block has so many
	subgroups int // thread blocks that have them all
	parts     int // of the tokens of a row
}

func (s *Set) plan(l Layout, q Query) (p plan, err error) {
	if err := l.check(); err != nil {
		return p, err
	}
	if q.Heads < 1 || q.Heads%l.Heads != 0 || q.Heads > 1<<16 {
		return p, fmt.Errorf("%w: %d heads of queries, %d of keys", device.ErrArgument, q.Heads, l.Heads)
	}
	if q.Window < 0 || q.Window > math.MaxInt32 || q.Sinks < 0 || q.Sinks > math.MaxInt32 || q.Window == 0 && q.Sinks > 0 || q.MaxLength < 0 {
		return p, fmt.Errorf("%w: a window of %d tokens with %d before it, of at most %d", device.ErrArgument, q.Window, q.Sinks, q.MaxLength)
	}
	if f := float64(q.Scale); math.IsNaN(f) || math.IsInf(f, 0) {
		return p, fmt.Errorf("%w: scale %g", device.ErrArgument, f)
	}
	if err := q.check(l); err != nil || q.N == 0 {
		return plan{Query: q, l: l}, err
	}
	if q.N > math.MaxInt32/q.Heads {
		return p, fmt.Errorf("%w: %d rows of %d heads are more than 31 bits", device.ErrArgument, q.N, q.Heads)
	}
	if q.Scale == 0 {
		q.Scale = float32(1 / math.Sqrt(float64(l.Width)))
	}
	p = plan{Query: q, l: l, kind: plain, group: q.Heads / l.Heads}
	if s.tensor && p.group > 1 {
		p.kind = tensor
	}
	p.together = p.kind.group(p.group)
	p.subgroups = (p.group + p.together - 1) / p.together
	most := q.TableWidth * l.BlockTokens
	if q.MaxLength > 0 {
		most = min(most, q.MaxLength)
	}
	if q.Window > 0 {
		most = min(most, q.Window+q.Sinks)
	}
	p.parts = divide(q.N*l.Heads*p.subgroups, most, s.atOnce(p.kind, l.Width))
	return p, nil
}

// divide is the number of parts that take the least time, of so many rows and heads with so many
// tokens, on a device that has so many thread blocks at once.
func divide(blocks, tokens, atOnce int) int {
	best, least := 1, math.MaxInt
	for parts := 1; parts <= min(tokens/partTokens, mostParts, mostRounds*atOnce/blocks); parts++ {
		rounds := (blocks*parts + atOnce - 1) / atOnce
		if cost := rounds * ((tokens+parts-1)/parts + partCost); cost < least {
			best, least = parts, cost
		}
	}
	return best
}

func (p plan) scratchBytes() int64 {
	if p.parts <= 1 {
		return 0
	}
	return int64(p.N) * int64(p.Heads) * int64(p.parts) * int64(p.l.Width+2) * 4
}

// ScratchBytes is the memory that Attend needs beside its operands, for as long as the work runs.
// It depends on the shapes of q alone, whose addresses may be zero here. Ask for each: fewer rows
// are divided into more parts, and can need more.
func (s *Set) ScratchBytes(l Layout, q Query) (int64, error) {
	p, err := s.plan(l, q)
	if err != nil {
		return 0, fmt.Errorf("attention: %w", err)
	}
	return p.scratchBytes(), nil
}

// Attend queues the attention of q's rows over the pages of l. All memory has to stay until the work is done.
func (s *Set) Attend(stream device.Stream, l Layout, q Query) error {
	p, err := s.plan(l, q)
	if err == nil {
		err = q.checkSpans(span{"Query", q.Query, 16}, span{"Out", q.Out, 16})
	}
	if need := p.scratchBytes(); err == nil && need > 0 && (q.Scratch == 0 || q.Scratch%16 != 0 || q.ScratchBytes < need) {
		err = fmt.Errorf("%w: Scratch is %d bytes at %#x, and %d bytes are needed, at a multiple of 16", device.ErrArgument, q.ScratchBytes, uint64(q.Scratch), need)
	}
	if err == nil {
		err = s.queue(stream, q.N, p)
	}
	if err != nil {
		return fmt.Errorf("attention: attend: %w", err)
	}
	return nil
}

// Store queues what puts the keys and values of new tokens, arrays of [N, Heads, Width], where the
// tables say. Rows of length 0 have none.
func (s *Set) Store(stream device.Stream, l Layout, r Rows, keys, values device.Ptr) error {
	err := l.check()
	if err == nil {
		err = errors.Join(r.check(l), r.checkSpans(span{"keys", keys, 16}, span{"values", values, 16}))
	}
	if err == nil {
		err = s.queue(stream, r.N, stored{l, r, keys, values})
	}
	if err != nil {
		return fmt.Errorf("attention: store: %w", err)
	}
	return nil
}

// stored is a call of Store.
type stored struct {
	l            Layout
	r            Rows
	keys, values device.Ptr
}
