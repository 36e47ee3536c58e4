package outofcore

import "slices"

// cell is a product of tiles.
type cell struct{ i, j, l int }

// order lists the products of a kind on mt x nt x kt tiles.
func (k *kind) order(mt, nt, kt int) []cell {
	if k.swapped {
		mt, nt = nt, mt
	}
	list := make([]cell, 0, mt*nt*kt)
	if kt == 1 {
		list = k.bands(list, mt, nt)
	} else {
		list = k.blocks(list, mt, nt, kt)
	}
	if k.swapped {
		for n := range list {
			list[n].i, list[n].j = list[n].j, list[n].i
		}
	}
	return list
}

// bands go down the rows of tiles of C, a band at a time, and along each band
// by columns, there and back, so that a band begins with the columns that the
// one before it ended with.
//
// What a band begins with, a group of columns, it takes row by row: every row
// of A that arrives can be multiplied with all of them at once. What it ends
// with it takes by rows, too: every row of A that is done with makes room for
// one of the next band. In between each column is multiplied with all rows.
func (k *kind) bands(list []cell, mt, nt int) []cell {
	columns := sequence(nt)
	for at := 0; at < mt; at += k.rows {
		rows := sequence(min(k.rows, mt-at))
		for n := range rows {
			rows[n] += at
		}
		head := min(k.group, nt)
		tail := min(k.group, nt-head)
		if at == 0 {
			list = growing(list, rows, columns[:head])
		} else {
			list = byRows(list, rows, columns[:head])
		}
		for _, j := range columns[head : nt-tail] {
			for _, i := range rows {
				list = append(list, cell{i, j, 0})
			}
			slices.Reverse(rows)
		}
		slices.Sort(rows)
		list = byRows(list, rows, columns[nt-tail:])
		slices.Reverse(columns)
	}
	return list
}

// growing takes rows and columns in turn: nothing is on the device yet, and
// this makes the most products of the least tiles.
func growing(list []cell, rows, columns []int) []cell {
	for n := range max(len(rows), len(columns)) {
		if n < len(rows) {
			for _, j := range columns[:min(n, len(columns))] {
				list = append(list, cell{rows[n], j, 0})
			}
		}
		if n < len(columns) {
			for _, i := range rows[:min(n+1, len(rows))] {
				list = append(list, cell{i, columns[n], 0})
			}
		}
	}
	return list
}

func byRows(list []cell, rows, columns []int) []cell {
	for _, i := range rows {
		for _, j := range columns {
			list = append(list, cell{i, j, 0})
		}
	}
	return list
}

// blocks take a block of C at a time, and all of k for each, there and back,
// so that a block begins with the tiles that the one before it ended with.
func (k *kind) blocks(list []cell, mt, nt, kt int) []cell {
	depth := sequence(kt)
	across := sequence((nt-1)/k.columns + 1)
	for top := 0; top < mt; top += k.rows {
		for _, block := range across {
			left := block * k.columns
			for _, l := range depth {
				for i := top; i < min(top+k.rows, mt); i++ {
					for j := left; j < min(left+k.columns, nt); j++ {
						list = append(list, cell{i, j, l})
					}
				}
			}
			slices.Reverse(depth)
		}
		slices.Reverse(across)
	}
	return list
}

func sequence(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}
