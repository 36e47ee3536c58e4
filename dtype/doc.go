// Package dtype names the element types of samples, batches and tensors. It
// is a leaf: everything may import it.
//
//	d, err := dtype.Parse("bf16") // dtype.BF16
//	n := 224 * 224 * 3 * d.Size() // bytes
//
// Elements are little-endian wherever they lie in memory or in a file.
package dtype
