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
// and counts as 1. Shorter rows take as long as ones of 512 bytes. [Runner]
// measures it for pinned matrices that are large.
type RowShare [8]float64

const leastRow = 512

// at is the share for rows of n bytes: between two measured lengths on a line
// over the logarithm; 1 beyond them.
func (s *RowShare) at(n int64) float64 {
	if n < leastRow {
		return cmp.Or(s[0], 1) * float64(n) / leastRow
	}
	octave := math.Log2(float64(n) / leastRow)
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
// Tiles lie in slots of their size, and tiles of A and B share slots where they
// are of one size. Which tile leaves for another is decided with the whole order
// known: the one whose next use is farthest away (Belady 1966).
type Plan struct {
	Problem Problem

	TileM, TileN, TileK int64 // tiles of A are TileM x TileK; at the edges they may be smaller

	A, B Slots // for tiles of A and B; where those are of one size, A's are for both
	Sums Slots // for tiles of C

	// SplitK: a tile of C takes several products. In bfloat16 it is then summed
	// in float32, and there are slots for tiles that are narrowed to go out, or
	// have come in.
	SplitK bool
	Narrow Slots

	Products           int      // of tiles
	H2DBytes, D2HBytes int64    // that the plan moves
	Moved              [3]Moved // how many of A, B and C, and how fast by the rates
	Seconds            float64  // that it takes by the rates; 0 if they are unknown
	Lanes              Lanes    // how that comes about

	loads  []load
	steps  []step
	stores int
}

// DeviceBytes is the memory that the plan takes.
func (p *Plan) DeviceBytes() int64 {
	return p.A.bytes() + p.B.bytes() + p.Sums.bytes() + p.Narrow.bytes()
}

// Moved is what crosses the link of one matrix.
type Moved struct {
	H2DBytes, D2HBytes     int64
	H2DSeconds, D2HSeconds float64 // that its copies take
	RowBytes               int64   // of rows that have gaps between them in host memory; 0: there are no gaps
}

// Slots are places of one size in device memory.
type Slots struct{ Count, Bytes int64 }

func (s Slots) bytes() int64 { return s.Count * s.Bytes }

// matrix names an operand.
type matrix uint8

const (
	matrixA matrix = iota
	matrixB
	matrixC
)

func (m matrix) String() string { return string("ABC"[m]) }

// matrixBytes are the bytes of A, B and C.
func (p *Problem) matrixBytes() [3]int64 {
	size := int64(p.Type.Size())
	return [3]int64{p.M * p.K * size, p.K * p.N * size, p.M * p.N * size}
}

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
	var best []*Plan // about as fast as the fastest
	fastest, steps := math.Inf(1), 0
	type tiles struct{ m, n, depth int64 }
	type family struct{ squares, split bool }
	inFamily, ofTiles := map[family]int{}, map[tiles]int{}
	for _, k := range kinds {
		f, t := family{k.m == k.n, k.depth < p.K}, tiles{k.m, k.n, k.depth}
		if inFamily[f] == simulated || ofTiles[t] == alike {
			continue
		}
		inFamily[f]++
		ofTiles[t]++
		plan := p.simulate(k)
		fastest = min(fastest, plan.Seconds)
		best = slices.DeleteFunc(append(best, plan), func(p *Plan) bool { return p.Seconds > same*fastest })
		if steps += plan.Products; steps > mostSteps {
			break
		}
	}
	if len(best) == 0 {
		return nil, fmt.Errorf("outofcore: %w: %s for %d x %d x %d of %v", ErrBudget, units.Bytes(p.DeviceBytes),
			p.M, p.N, p.K, p.Type)
	}
	return slices.MinFunc(best, func(a, b *Plan) int {
		return cmp.Or(cmp.Compare(a.H2DBytes+a.D2HBytes, b.H2DBytes+b.D2HBytes), cmp.Compare(a.Seconds, b.Seconds))
	}), nil
}

const (
	assumedLink  = 25e9
	assumedFlops = 10e12 // a second

	simulated = 32      // kinds that look best, of each family
	alike     = 8       // of them, with tiles of one size
	same      = 1.001   // times as long is as fast
	manySteps = 1 << 13 // are enough, where their tiles fit
	mostSteps = 1 << 19 // of a plan, and of all that are simulated
	launch    = 5e-6    // seconds that a product takes beside its operations
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
