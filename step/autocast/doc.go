// Package autocast makes a graph of package step compute partly in 16 bits: mixed
// precision.
//
//	mixed, err := autocast.Graph(g, dtype.BF16)
//
// Weights and the state of an optimizer stay float32, and so does what needs it.
package autocast
