package forecast

import (
	"math"
	"slices"
)

// Order is an announced order of uses, and a cursor that follows the uses as they
// come. Items are compared with ==.
type Order[T comparable] struct {
	items  []T
	cyclic bool
	start  []int64     // bytes before each item, and in the end all bytes
	where  map[T][]int // the places of an item, ascending

	cursor int64 // the number of the use that is expected next; laps count on

	stray  int64 // where the cursor would be, had the last stray use been right
	strays int   // how many strays in a row agree with that
}

// nearby is how many places the cursor moves on to find a use: uses of several
// goroutines come a little out of order.
const nearby = 16

// NewOrder makes an order of items with their sizes. A cyclic one begins anew when
// it ends.
func NewOrder[T comparable](items []T, bytes func(T) int64, cyclic bool) *Order[T] {
	o := &Order[T]{items: slices.Clone(items), cyclic: cyclic && len(items) > 0, where: map[T][]int{}}
	var at int64
	for i, x := range items {
		o.start = append(o.start, at)
		o.where[x] = append(o.where[x], i)
		at += bytes(x)
	}
	o.start = append(o.start, at)
	return o
}

// Use moves the cursor behind the use of x, if x comes soon. Else x is a stray; but
// when a few strays in a row follow the order at another place, the cursor goes
// there. It reports whether x was expected.
func (o *Order[T]) Use(x T) bool {
	at, ok := o.find(x, o.cursor)
	if !ok {
		return false
	}
	if at < o.cursor+nearby {
		o.cursor, o.strays = at+1, 0
		return true
	}
	if again, _ := o.find(x, o.stray); o.strays > 0 && again == o.stray {
		o.strays++
		o.stray++
	} else {
		o.strays, o.stray = 1, at+1
	}
	if o.strays >= 3 {
		o.cursor, o.strays = o.stray, 0
	}
	return false
}

// find returns the number of the first use of x from a number on.
func (o *Order[T]) find(x T, from int64) (int64, bool) {
	places := o.where[x]
	if len(places) == 0 {
		return 0, false
	}
	n := int64(len(o.items))
	lap, place := from/n, int(from%n)
	if i, _ := slices.BinarySearch(places, place); i < len(places) {
		if !o.cyclic && lap > 0 {
			return 0, false
		}
		return lap*n + int64(places[i]), true
	}
	if !o.cyclic {
		return 0, false
	}
	return (lap+1)*n + int64(places[0]), true
}

// Next is the distance from the cursor to the next use of x: +Inf if there is none.
func (o *Order[T]) Next(x T) float64 {
	at, ok := o.find(x, o.cursor)
	if !ok {
		return math.Inf(1)
	}
	return float64(o.position(at) - o.position(o.cursor))
}

func (o *Order[T]) position(number int64) int64 {
	n := int64(len(o.items))
	return number/n*o.start[n] + o.start[number%n]
}

// Find returns the number of the next use of x, if there is one.
func (o *Order[T]) Find(x T) (int64, bool) { return o.find(x, o.cursor) }

// Cursor is the number of the use that is expected next. Numbers count on over
// laps.
func (o *Order[T]) Cursor() int64 { return o.cursor }

// At is the item of the use of a number, if there is one.
func (o *Order[T]) At(number int64) (x T, ok bool) {
	n := int64(len(o.items))
	if n == 0 || number < 0 || !o.cyclic && number >= n {
		return x, false
	}
	return o.items[number%n], true
}

// Left is the number of different items.
func (o *Order[T]) Left() int { return len(o.where) }

// Len is the number of uses in one lap.
func (o *Order[T]) Len() int { return len(o.items) }

// Remove takes an item out; the others keep their numbers. At goes on returning it.
func (o *Order[T]) Remove(x T) { delete(o.where, x) }

// Items lists the different items.
func (o *Order[T]) Items(yield func(T) bool) {
	for x := range o.where {
		if !yield(x) {
			return
		}
	}
}
