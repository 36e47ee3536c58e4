package outofcore

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/units"
)

// Problem is what a [Plan] is made for: C = op(A) op(B), with M x K and K x N
// elements, on a device with little memory.
type Problem struct {
	M, N, K int64
	Type    dtype.DType // F32 or BF16
	ReadC   bool        // C is read, too

	DeviceBytes int64 // device memory for tiles

	TransA, TransB bool // the matrix is stored the other way round

	// Rates of the link, in bytes a second, and the speed of products. They
	// decide between plans. 0: unknown.
	H2DRate, D2HRate float64
	RowShare         [3]RowShare // of tiles of A, B and C
	Speed            Speed
}

// RowShare is which share of the link's rate copies reach whose rows have gaps
// between them in host memory: rows of 512, 1024, … 65536 bytes. 0: unknown,
// and counts as 1. [Runner] measures it, for pinned matrices that are large.
type RowShare [8]float64

const leastRow = 512

// at is the share for rows of n bytes: between two measured lengths on a line
// over the logarithm; 1 beyond them.
func (s *RowShare) at(n int64) float64 {
	octave := max(math.Log2(float64(n)/leastRow), 0)
	i := int(octave)
	if i >= len(s) {
		return 1
	}
	share := func(i int) float64 {
		if i >= len(s) {
			return 1
		}
		return cmp.Or(s[i], 1)
	}
	part := octave - float64(i)
	return share(i)*(1-part) + share(i+1)*part
}

// rowBytes is how long the rows of a tile are in host memory; 0: the tile has
// no gaps.
func (p *Problem) rowBytes(of matrix, tileM, tileN, tileK int64) int64 {
	across, all := tileN, p.N
	switch {
	case of == matrixA && p.TransA:
		across, all = tileM, p.M
	case of == matrixA, of == matrixB && p.TransB:
		across, all = tileK, p.K
	}
	if across >= all {
		return 0
	}
	return across * int64(p.Type.Size())
}

// rate is how many bytes of a tile cross the link a second.
func (p *Problem) rate(of matrix, tileM, tileN, tileK int64, toHost bool) float64 {
	rate := p.H2DRate
	if toHost {
		rate = p.D2HRate
	}
	if n := p.rowBytes(of, tileM, tileN, tileK); n > 0 {
		rate *= p.RowShare[of].at(n)
	}
	return rate
}

// Plan is an order of tile products, and of the copies that bring and take the
// tiles. It is a function of the [Problem].
//
// Tiles of A and B share slots of one size, those of C have their own. Which
// tile leaves for another is decided with the whole order known: the one whose
// next use is farthest away (Belady 1966).
type Plan struct {
	Problem Problem

	TileM, TileN, TileK int64 // tiles of A are TileM x TileK; at the edges they may be smaller

	Slots, SlotBytes       int64 // for tiles of A and B
	SumSlots, SumSlotBytes int64 // for tiles of C

	// SplitK: a tile of C takes several products. In bfloat16 it is then summed
	// in float32, and there are slots for tiles that are narrowed to go out, or
	// have come in.
	SplitK                       bool
	NarrowSlots, NarrowSlotBytes int64

	Products           int     // of tiles
	H2DBytes, D2HBytes int64   // that the plan moves
	Seconds            float64 // that it takes by the rates; 0 if they are unknown
	Lanes              Lanes   // how that comes about

	loads  []load
	steps  []step
	stores int
}

// DeviceBytes is the memory that the plan takes.
func (p *Plan) DeviceBytes() int64 {
	return p.Slots*p.SlotBytes + p.SumSlots*p.SumSlotBytes + p.NarrowSlots*p.NarrowSlotBytes
}

// matrix names an operand.
type matrix uint8

const (
	matrixA matrix = iota
	matrixB
	matrixC
)

// tile is a tile of a matrix, by its row and column of tiles.
type tile struct {
	of          matrix
	row, column int
}

// load brings a tile into a slot, when what was there before is done with:
// behind that step, or for a tile of C that is not narrow behind that store.
// -1 is at once.
type load struct {
	tile  tile
	slot  int
	after int
}

// step is the product of tile (i, l) of A and (l, j) of B, added to (i, j) of C.
type step struct {
	i, j, l     int
	a, b, c     int  // slots
	loads       int  // so many must be done before
	first, last bool // of this tile of C
	narrow      int  // slot of the tile of C: that came in, for a first step, or goes out, for a last one
	after       int  // the step overwrites the slot of what goes out behind that store; -1: at once
	store       int  // of a last step: its number
}

// kind is a way to cut and order a problem.
type kind struct {
	tile, depth   int64
	rows, columns int  // of tiles of C in a block
	group         int  // columns that a band begins and ends with
	window        int  // slots for what comes next
	swapped       bool // bands are of columns: of B' A'
	guess         float64
}

// ErrBudget: the device memory that may be used has no room for the smallest
// tiles.
var ErrBudget = errors.New("device budget too small")

// MakePlan chooses how p is cut into tiles and in which order they are
// multiplied, so that it takes the least time by the rates of p and, among
// equals, moves the fewest bytes. It fails with [device.ErrArgument] for sizes that
// cannot be right and with [ErrBudget] for too little device memory.
func MakePlan(p Problem) (*Plan, error) {
	if p.M < 1 || p.N < 1 || p.K < 1 || p.Type != dtype.F32 && p.Type != dtype.BF16 || p.DeviceBytes < 0 {
		return nil, fmt.Errorf("outofcore: %w: %d x %d x %d of %v in %d bytes", device.ErrArgument,
			p.M, p.N, p.K, p.Type, p.DeviceBytes)
	}
	if max(float64(p.M)*float64(p.K), float64(p.K)*float64(p.N), float64(p.M)*float64(p.N)) > math.MaxInt64/16 {
		return nil, fmt.Errorf("outofcore: %w: %d x %d x %d are more elements than memory has", device.ErrArgument, p.M, p.N, p.K)
	}
	p.H2DRate, p.D2HRate = cmp.Or(p.H2DRate, assumedLink), cmp.Or(p.D2HRate, assumedLink)
	var kinds []kind
	for steps := manySteps; len(kinds) == 0 && steps <= mostSteps; steps *= 4 {
		kinds = p.kinds(steps)
	}
	slices.SortStableFunc(kinds, func(a, b kind) int { return cmp.Compare(a.guess, b.guess) })
	var best *Plan
	steps := 0
	for _, k := range kinds[:min(len(kinds), simulated)] {
		plan := p.simulate(k)
		if best == nil || plan.better(best) {
			best = plan
		}
		if steps += plan.Products; steps > mostSteps {
			break
		}
	}
	if best == nil {
		return nil, fmt.Errorf("outofcore: %w: %s for %d x %d x %d of %v", ErrBudget, units.Bytes(p.DeviceBytes),
			p.M, p.N, p.K, p.Type)
	}
	return best, nil
}

// better reports whether p takes less time than q, or about as much and moves
// less.
func (p *Plan) better(q *Plan) bool {
	const same = 0.995
	switch {
	case p.Seconds < same*q.Seconds:
		return true
	case q.Seconds < same*p.Seconds:
		return false
	}
	return cmp.Or(cmp.Compare(p.H2DBytes+p.D2HBytes, q.H2DBytes+q.D2HBytes), cmp.Compare(p.Seconds, q.Seconds)) < 0
}

const (
	assumedLink  = 25e9
	assumedFlops = 10e12 // a second

	simulated = 24      // kinds that look best
	manySteps = 1 << 13 // are enough, where their tiles fit
	mostSteps = 1 << 19 // of a plan, and of all that are simulated
	smallest  = 64      // side of a tile
	launch    = 5e-6    // seconds that a product takes beside its operations

	slotAlign = 512
)

// kinds lists the ways that fit and take so many products at most, each with a
// guess of its time.
func (p *Problem) kinds(mostSteps int) []kind {
	var list []kind
	for _, side := range sides(max(p.M, p.N), smallest) {
		for _, depth := range sides(p.K, smallest) {
			for _, swapped := range []bool{false, true} {
				list = append(list, p.kindsOf(side, depth, swapped, mostSteps)...)
			}
		}
	}
	return list
}

// sides are the whole extent, and powers of two below it.
func sides(extent, least int64) []int64 {
	list := []int64{extent}
	for s := int64(1) << 40; s >= least; s /= 2 {
		if s < extent {
			list = append(list, s)
		}
	}
	return list
}

func ceil(a, b int64) int64 { return (a + b - 1) / b }

// kindsOf lists the ways with tiles of that size. With whole columns of k in a
// tile, a band of rows of A stays while the columns of B go by. Else a block of
// C stays while A and B go by.
func (p *Problem) kindsOf(side, depth int64, swapped bool, mostSteps int) []kind {
	m, n := p.M, p.N
	if swapped {
		m, n = n, m
	}
	mt, nt, kt := int(ceil(m, side)), int(ceil(n, side)), int(ceil(p.K, depth))
	if float64(mt)*float64(nt)*float64(kt) > float64(mostSteps) {
		return nil
	}
	s := p.slotSizes(side, depth)
	room := p.DeviceBytes - s.narrowSlots*s.narrow

	// Times of a tile, for the guesses.
	high, wide := min(side, p.M), min(side, p.N)
	in := float64(s.factor) / 2 * (1/p.rate(matrixA, high, wide, depth, false) + 1/p.rate(matrixB, high, wide, depth, false))
	out := float64(high*wide*int64(p.Type.Size())) / p.rate(matrixC, high, wide, depth, true)
	whole := float64(high) * float64(wide) * float64(depth) // of a product; at the edges they are smaller
	compute := p.stepSeconds(high, wide, depth, kt > 1, false) * float64(p.M) * float64(p.N) * float64(p.K) / whole
	step := compute / float64(mt*nt*kt)
	var list []kind
	add := func(k kind, loads, ends float64) {
		k.tile, k.depth, k.swapped = side, depth, swapped
		k.guess = max(compute, loads*in) + 2*in + out + ends
		list = append(list, k)
	}
	for _, window := range []int{1, 2, 4} {
		if kt == 1 {
			slots := int((room - sumSlots*s.sum) / s.factor)
			// While a band grows by tiles of both, t tiles make t^2/4
			// products; it lags behind the link the most by this.
			growth := in * in / step
			if slots >= mt+nt {
				if window == 1 {
					add(kind{rows: mt, columns: nt, group: nt}, float64(mt+nt), min(growth, float64(mt+nt)*in))
				}
				continue
			}
			for _, group := range []int{1, 2, 4, 8} {
				rows := min(slots-window-group, mt)
				if rows < 1 || group > nt {
					continue
				}
				bands := (mt-1)/rows + 1
				rows = (mt-1)/bands + 1
				add(kind{rows: rows, columns: nt, group: group, window: window}, float64(mt+bands*(nt-group)+group),
					min(growth, float64(rows)*in))
			}
			continue
		}
		// The block of C that makes for the fewest loads.
		var best kind
		least := math.Inf(1)
		for rows := 1; rows <= mt; rows++ {
			left := room - (int64(rows)+1+int64(window))*s.factor - s.sum
			columns := int(min(left/(s.factor+int64(rows)*s.sum), int64(nt)))
			if columns < 1 {
				break
			}
			loads := float64(mt)*float64((nt-1)/columns+1) + float64(nt)*float64((mt-1)/rows+1)
			if loads < least {
				least, best = loads, kind{rows: rows, columns: columns, window: window}
			}
		}
		if best.rows > 0 {
			add(best, least*float64(kt), float64(best.rows*best.columns)*max(out-step, 0)) // the last block goes out
		}
	}
	return list
}

// sumSlots for tiles of C: one is computed, one goes out, and one is spare.
const sumSlots = 3

// slotSizes are the sizes of tiles in device memory.
type slotSizes struct {
	factor, sum         int64
	narrow, narrowSlots int64
}

func (p *Problem) slotSizes(side, depth int64) slotSizes {
	align := func(n int64) int64 { return ceil(n, slotAlign) * slotAlign }
	size := int64(p.Type.Size())
	elements := min(side, p.M) * min(side, p.N)
	s := slotSizes{factor: align(min(side, max(p.M, p.N)) * depth * size), sum: align(elements * size)}
	if p.Type == dtype.BF16 && depth < p.K {
		s.narrow, s.sum, s.narrowSlots = s.sum, align(elements*4), narrowOut
		if p.ReadC {
			s.narrowSlots += narrowIn
		}
	}
	return s
}

// Narrow tiles: some go out, the others come in.
const (
	narrowOut = 2
	narrowIn  = 2
)

// stepSeconds is what a product of tiles takes: added to what is there, and
// narrowed to bfloat16 behind it.
func (p *Problem) stepSeconds(m, n, k int64, add, narrow bool) float64 {
	side := int64(math.Sqrt(float64(m) * float64(n)))
	t := launch + 2*float64(m)*float64(n)*float64(k)/p.Speed.at(side)
	if add {
		t += p.Speed.AddSeconds * float64(m) * float64(n) * 4
	}
	if narrow { // reads 4 bytes and writes 2, where adding reads 4
		t += p.Speed.AddSeconds * float64(m) * float64(n) * 6
	}
	return t
}
