// Package dataset reads what a loader feeds to a device: a fixed number of
// samples of one shape, in any order, by many workers at once.
//
//	ds, err := dataset.Open("photos", dataset.Options{}) // or "train.npy"
//	r, err := ds.NewReader()                             // one per worker
//	defer r.Close()
//	sample := make([]byte, ds.Spec().Bytes())
//	err = r.Read(17, sample, nil)
//
// A [Dataset] is safe for concurrent use. A [Reader] belongs to one worker
// and owns what decoding needs: buffers, a decoder, filters.
//
// # Kinds
//
// [ImageFolder] is a folder with one sub-folder per class, decoded and
// resized as torchvision does: samples of {Size, Size, 3} u8.
//
// [NPY] is one NumPy array in a file; its first axis counts samples. Element
// types and shape are the array's.
//
// # Errors
//
// Every error names the file, and the sample's element where there is one.
// [ErrEmpty], [ErrFormat], [ErrTooLarge], [ErrDamaged] and [ErrArgument] can
// be told apart with [errors.Is], beside those of package io/fs for files
// that vanish or may not be read.
package dataset
