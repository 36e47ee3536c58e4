// Package safetensors reads tensors of .safetensors files.
//
//	x, err := safetensors.Open(ctx, "train.safetensors", safetensors.Options{Tensor: "x", Label: "y"})
//
// Importing it registers the format with [dataset.Open].
package safetensors
