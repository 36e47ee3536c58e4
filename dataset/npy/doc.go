// Package npy reads NumPy arrays: files of one array (.npy), archives of them
// (.npz), and many files that are one sample each.
//
//	arrays, err := npy.Open(ctx, "train.npy", npy.Options{})
//
// Importing it registers the formats with [dataset.Open].
package npy
