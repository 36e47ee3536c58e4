// Package attention computes attention over a paged KV cache: keys and values are in blocks that
// are anywhere in a device's memory, and each sequence has a table of the blocks that hold its
// tokens, as those of package kvcache.
//
//	set, err := attention.Load(dev)
//	defer set.Close()
//	l := attention.Layout{Type: dtype.BF16, Pages: pages.Ptr(), Blocks: 4096, BlockBytes: 4 << 20, BlockTokens: 16,
//		Values: 32 << 10, Heads: 8, Width: 128}
//	err = set.Store(stream, l, rows, keys, values)   // of the new tokens
//	err = set.Attend(stream, l, attention.Query{Rows: rows, Query: q, Out: out, Heads: 32, Scratch: scratch})
//
// # Rows
//
// The unit of work is a row: one new token. It belongs to a sequence and attends to the first
// Length tokens of it, of which the last is its own. A step that decodes has a row for
// each sequence, a prompt has as many rows as it has new tokens, with lengths that rise by one,
// and both can be in one call. Row numbers, lengths and tables are in memory of the device, so a
// captured graph can be launched with others.
//
// # Kernels
//
// A thread block reads the keys and values of a head once for up to 16 query heads that share it
// (8 before compute capability 8.0), and keeps maximum and sum of the softmax as it goes (Milakov and
// Gimelshein, Online normalizer calculation for softmax, 2018). Where there are few rows, several
// thread blocks take parts of a row's tokens, and a second kernel puts them together (Dao et al.,
// Flash-Decoding, 2023). Sums are in 32 bits. Devices that call Go functions have the same in Go;
// results differ in their last bits. Scores that are no numbers come to zeros on GPUs, and to no
// numbers in Go.
//
// Rows are computed apart from each other. Where each reads other blocks, memory bandwidth is the
// limit. The rows of a long prompt read the same ones again and again: there, attention over
// contiguous arrays is faster.
package attention
