package outofcore

import (
	"math"

	"github.com/pinion-gpu/pinion/dtype"
)

// kind is a way to cut a problem into tiles, to keep them and to order their
// products.
type kind struct {
	m, n, depth   int64  // of tiles: those of A are m x depth
	slots         [2]int // for tiles of A and of B; none for B: A's are for both
	window        [2]int // of those, slots for what comes next
	sums          int    // slots for tiles of C
	rows, columns int    // of tiles of C in a block
	group         int    // columns that a band begins and ends with
	swapped       bool   // bands are of columns: of B' A'
	guess         float64
}

// Ways to keep tiles:
//
//   - Of tiles that are as deep as k, a band of rows of A stays while the columns
//     of B go by, or the other way round. Where both are squares, they share
//     slots, and what leaves is decided among them all. Otherwise each has its
//     own: with little memory, what stays is best wide, so that few bands are
//     enough and rows are long in host memory, and what goes by is best thin.
//   - Of tiles that are not as deep, a block of C stays, while A and B go by.
//
// kinds lists those that fit and take so many products at most, each with a
// guess of its time.
func (p *Problem) kinds(mostSteps int) []kind {
	var list []kind
	for _, m := range sides(p.M) {
		for _, n := range sides(p.N) {
			if m < min(n/mostAspect, p.M) || n < min(m/mostAspect, p.N) {
				continue
			}
			for depth := p.K; ; depth = roundUp(ceil(depth, 2), smallest) {
				c := p.cut(m, n, depth)
				if float64(c.mt)*float64(c.nt)*float64(c.kt) > float64(mostSteps) {
					break // as those that are less deep
				}
				for _, swapped := range []bool{false, true} {
					if c.kt == 1 {
						list = c.bands(list, swapped)
					} else {
						list = c.blocks(list, swapped)
					}
				}
				if depth <= smallest {
					break
				}
			}
		}
	}
	return list
}

const (
	smallest = 64 // side of a tile

	// mostAspect is how much longer than wide the tiles of C may be. Beyond
	// that, a product waits for the device's memory, which [Speed] knows
	// nothing about.
	mostAspect = 32
)

// sides are the extent in 1, 2, 3, … equal parts: four lengths an octave, in
// multiples of the smallest.
func sides(extent int64) []int64 {
	list := []int64{extent}
	for parts, step := int64(2), int64(1); ; parts += step {
		side := roundUp(ceil(extent, parts), smallest)
		if side < list[len(list)-1] {
			list = append(list, side)
		}
		if side == smallest {
			return list
		}
		if parts == 8*step {
			step *= 2
		}
	}
}

func ceil(a, b int64) int64 { return (a + b - 1) / b }

func roundUp(n, to int64) int64 { return ceil(n, to) * to }

// cut is a problem in tiles of a size, with what the guesses go by.
type cut struct {
	*Problem
	m, n, depth int64
	mt, nt, kt  int
	sizes       slotSizes
	room        int64 // for tiles

	// Seconds in which all of A, B, and C where it is read, comes in; and bytes.
	load, loadBytes   [3]float64
	store, storeBytes float64 // the same of C that goes out
	first, last       float64 // seconds until there is a tile of A and of B, and of the last one of C
	compute           float64 // seconds of all products
}

func (p *Problem) cut(m, n, depth int64) *cut {
	c := &cut{Problem: p, m: m, n: n, depth: depth, mt: int(ceil(p.M, m)), nt: int(ceil(p.N, n)), kt: int(ceil(p.K, depth)),
		sizes: p.slotSizes(m, n, depth)}
	c.room = p.DeviceBytes - c.sizes.narrow.bytes()
	rate := func(of matrix) float64 { return p.rate(of, m, n, depth, false) }
	bytes := p.matrixBytes()
	for of := range matrix(3) {
		if of != matrixC || p.ReadC {
			c.loadBytes[of] = float64(bytes[of])
			c.load[of] = c.loadBytes[of] / rate(of)
		}
	}
	c.storeBytes = float64(bytes[matrixC])
	c.store = c.storeBytes / p.rate(matrixC, m, n, depth, true)
	c.last = c.store / float64(c.mt*c.nt)
	whole := float64(m) * float64(n) * float64(depth) // of a product; at the edges they are smaller
	c.compute = p.stepSeconds(m, n, depth, c.kt > 1, false) * float64(p.M) * float64(p.N) * float64(p.K) / whole
	c.first = c.load[matrixA]/float64(c.mt*c.kt) + c.load[matrixB]/float64(c.nt*c.kt)
	return c
}

// guess is what a kind takes that brings in all of A and B so many times: with
// products that wait for tiles so long while copies go on, and copies and
// products that wait for each other so long.
func (c *cut) guess(times [2]float64, stall, wait float64) float64 {
	in, bytes := c.load[matrixC], c.loadBytes[matrixC]
	for of, n := range times {
		in += n * c.load[of]
		bytes += n * c.loadBytes[of]
	}
	slowIn, slowOut := c.together(bytes, in, c.storeBytes, c.store)
	return max(c.compute+stall, in*slowIn, c.store*slowOut) + c.first + c.last + wait
}

// bands lists ways in which a band stays.
func (c *cut) bands(list []kind, swapped bool) []kind {
	room := c.room - sumSlots*c.sizes.sum
	stays, passes := matrixA, matrixB
	mt, nt := c.mt, c.nt
	if swapped {
		stays, passes, mt, nt = passes, stays, nt, mt
	}
	add := func(rows, group int, slots, window [2]int, stall, wait float64) {
		bands := (mt-1)/rows + 1
		k := kind{m: c.m, n: c.n, depth: c.depth, slots: slots, window: window, sums: sumSlots,
			rows: (mt-1)/bands + 1, columns: nt, group: group, swapped: swapped}
		times := [2]float64{1, 1}
		times[passes] = (float64(bands)*float64(nt-group) + float64(group)) / float64(nt)
		k.guess = c.guess(times, stall, wait)
		list = append(list, k)
	}
	step := c.compute / float64(mt*nt)
	one := c.load[stays] / float64(mt)
	// While a band grows by tiles of both, t tiles make t^2/4 products; it lags
	// behind the link the most by this.
	growth := func(tiles int) float64 { return min(one*one/step, float64(tiles)*one) }
	if c.m == c.n {
		slots := int(room / c.sizes.factors[stays])
		if slots >= mt+nt {
			add(mt, nt, [2]int{mt + nt}, [2]int{}, 0, growth(mt+nt))
			return list
		}
		for _, window := range []int{1, 2, 4} {
			for _, group := range []int{1, 2, 4, 8} {
				rows := min(slots-window-group, mt)
				if rows >= 1 && group <= nt {
					add(rows, group, [2]int{slots}, [2]int{window}, 0, growth(rows))
				}
			}
		}
		return list
	}
	slots := func(rows, group int) (slots [2]int) {
		slots[stays], slots[passes] = rows, group
		return slots
	}
	stay, pass := c.sizes.factors[stays], c.sizes.factors[passes]
	for _, spare := range []int{0, 1} { // slots for the next band
		for _, window := range []int{1, 2, 4} {
			for _, group := range []int{1, 2, 4} {
				rows := min(int((room-int64(group+window)*pass)/stay)-spare, mt)
				if rows < 1 || group > nt || rows == mt && spare > 0 {
					continue
				}
				stall := 0.0
				if rows == 1 && spare == 0 {
					stall = c.load[stays]
				}
				rest := int((room - int64(rows+spare)*stay) / pass)
				add(rows, group, slots(rows+spare, min(rest, nt)), slots(spare, window), stall, growth(rows))
			}
		}
	}
	return list
}

// blocks lists ways in which a block of C stays: those with the fewest loads.
func (c *cut) blocks(list []kind, swapped bool) []kind {
	for _, window := range []int{1, 2, 4} {
		for _, spare := range []int{0, 1} { // slots for tiles of C while others go out
			if c.sizes.narrow.Count > 0 && spare > 0 {
				continue // they go out from slots of their own
			}
			if k, ok := c.block(window, spare, swapped); ok {
				list = append(list, k)
			}
		}
	}
	return list
}

// block is the way with the fewest loads that keeps a block of C and has so many
// slots for what comes next. Of the block, tiles in a row come one after the
// other, and meet all columns, which are there together.
func (c *cut) block(window, spare int, swapped bool) (best kind, ok bool) {
	rowTiles, columnTiles := matrixA, matrixB
	mt, nt := c.mt, c.nt
	if swapped {
		rowTiles, columnTiles, mt, nt = columnTiles, rowTiles, nt, mt
	}
	one, each := c.sizes.factors[rowTiles], c.sizes.factors[columnTiles]
	shared := c.m == c.n
	least := math.Inf(1)
	for rows := 1; rows <= mt; rows++ {
		held := int64(1+window)*one + int64(window)*each
		if shared {
			held = int64(rows+1+window) * one // a row stays for the next block
		}
		left := c.room - held - int64(spare)*c.sizes.sum
		columns := int(min(left/(each+int64(rows)*c.sizes.sum), int64(nt)))
		if columns < 1 {
			break
		}
		columns = int(ceil(int64(nt), ceil(int64(nt), int64(columns)))) // as many blocks, alike
		var times [2]float64
		times[rowTiles], times[columnTiles] = float64((nt-1)/columns+1), float64((mt-1)/rows+1)
		loads := times[matrixA]*c.load[matrixA] + times[matrixB]*c.load[matrixB]
		if loads >= least {
			continue
		}
		least = loads
		best = kind{m: c.m, n: c.n, depth: c.depth, sums: rows*columns + spare, rows: rows, columns: columns, swapped: swapped}
		// The first row of tiles meets columns that are yet to come, and the
		// last block goes out.
		step := c.compute / float64(mt*nt*c.kt)
		stall := float64(columns) * max(c.load[columnTiles]/float64(nt*c.kt)-step, 0)
		best.guess = c.guess(times, stall, float64(rows*columns)*max(c.last-step, 0))
		left = c.room - int64(best.sums)*c.sizes.sum
		if shared {
			best.slots, best.window = [2]int{int(left / one)}, [2]int{window}
		} else {
			best.window = [2]int{window, window}
			best.slots[rowTiles] = 1 + window
			best.slots[columnTiles] = int((left - int64(1+window)*one) / each)
		}
	}
	return best, best.rows > 0
}

// sumSlots for tiles of C: one is computed, one goes out, and one is spare.
const sumSlots = 3

// slotSizes are the sizes of tiles in device memory.
type slotSizes struct {
	factors [2]int64 // of A and B
	sum     int64
	narrow  Slots
}

const slotAlign = 512

func (p *Problem) slotSizes(m, n, depth int64) slotSizes {
	size := int64(p.Type.Size())
	s := slotSizes{factors: [2]int64{roundUp(m*depth*size, slotAlign), roundUp(n*depth*size, slotAlign)},
		sum: roundUp(m*n*size, slotAlign)}
	if p.Type == dtype.BF16 && depth < p.K {
		s.narrow = Slots{Count: narrowOut, Bytes: s.sum}
		s.sum = roundUp(m*n*4, slotAlign)
		if p.ReadC {
			s.narrow.Count += narrowIn
		}
	}
	return s
}

// Narrow tiles: some go out, the others come in.
const (
	narrowOut = 2
	narrowIn  = 2
)
