// Package dataset reads what a loader feeds to a device: a fixed number of
// samples, in any order, by many workers at once.
//
//	ds, err := dataset.Open(ctx, "photos", dataset.Options{}) // or "train.npy"
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
// {Size, Size, 3} u8, or of one channel, of u16, or both. They come from
// [Files], such as a [Folder] with one sub-folder per class.
//
// [NPY] is one NumPy array in a file; its first axis counts samples. Element
// types and shape are the array's. [NPZ] is an array of an archive of them,
// with labels from another one if there are any.
//
// [SafeTensors] is a tensor of a .safetensors file, with labels from another
// one of it if there are any; the first axis counts samples.
//
// [CSV] is a file of rows of numbers, with labels from one of its columns. It
// is read into memory once.
//
// [JSONLines] is a file of one JSON value a line, with samples and labels from
// two of its fields. It is read into memory once.
//
// [PointClouds] is a folder of point clouds, as KITTI and nuScenes store them
// or in PCD files: samples of {points, columns} f32.
//
// [Volumes] is a folder of NIfTI files, one volume each; [NIfTI] is one such
// file, whose fourth axis counts samples. Samples are {Z, Y, X}.
//
// [Raw] is a file of bare samples, whose shape and type the caller knows.
// [Memory] is samples that are in host memory already.
//
// [Tar] is files in tar shards, on disk or on a web server, of which [NewImages]
// makes pictures and [NewArrays] arrays. [PackFolder] makes shards of a folder.
//
// [Match] puts files into the order of others that they go with by name: masks
// into that of their photos. [Boxes] change along with the pictures that they go
// with. What is read for one [Visit] shares a [Frame]: masks of another shape than
// their photo are errors.
//
// [Open] tells them apart by what is there, but for [Raw] and [Memory].
//
// Parquet is in a module of its own, github.com/pinion-gpu/pinion/parquet.
//
// # Samples of different lengths
//
// Sentences and point clouds differ in the length of axis 0. Then the spec is
// ragged: Shape[0] is the length of the longest, and [Length] and
// [SampleBytes] tell those of a sample without reading it. [MemoryRagged],
// [PointClouds], [Arrays], and if asked for [JSONLines] and [Volumes] are such
// datasets, and parts and chains of them.
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
// [ErrEmpty], [ErrFormat], [ErrTooLarge], [ErrDamaged], [ErrMismatch],
// [ErrArgument], [ErrPanic] and [ErrUnavailable] can be told apart with [errors.Is], beside
// those of package io/fs for files that vanish or may not be read.
package dataset
