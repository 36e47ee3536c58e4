// Package dataset reads what a loader feeds to a device: a fixed number of
// samples of one shape, in any order, by many workers at once.
//
//	ds, err := dataset.Open("photos", dataset.Options{}) // or "train.npy"
//	r, err := ds.NewReader()                             // one per worker
//	defer r.Close()
//	sample := make([]byte, ds.Spec().Bytes())
//	err = r.Read(ctx, dataset.Visit{Index: 17}, sample)
//
// A [Dataset] is safe for concurrent use. A [Reader] belongs to one worker
// and owns what decoding needs: buffers, a decoder, filters.
//
// # Kinds
//
// [Images] is pictures, decoded and resized as torchvision does: samples of
// {Size, Size, 3} u8. They come from [Files], such as a [Folder] with one
// sub-folder per class.
//
// [NPY] is one NumPy array in a file; its first axis counts samples. Element
// types and shape are the array's.
//
// [SafeTensors] is a tensor of a .safetensors file, with labels from another
// one of it if there are any; the first axis counts samples.
//
// [CSV] is a file of rows of numbers, with labels from one of its columns. It
// is read into memory once.
//
// [Raw] is a file of bare samples, whose shape and type the caller knows.
// [Memory] is samples that are in host memory already.
//
// [Open] tells folders, NumPy files, safetensors and CSV apart by what is in
// them.
//
// # Combining
//
// [Concat] puts datasets one behind the other, [Zip] side by side. [Subset]
// picks samples by number, [RandomSplit] deals all of them out by a seed.
// [Map] sends every sample through a function. They copy no samples, and keep
// using the datasets that they are made of, which stay the caller's to close.
//
// # Errors
//
// Every error names the file, and the sample's element where there is one.
// [ErrEmpty], [ErrFormat], [ErrTooLarge], [ErrDamaged], [ErrArgument] and
// [ErrPanic] can be told apart with [errors.Is], beside those of package io/fs for files
// that vanish or may not be read.
package dataset
