// Package dataset reads what a loader feeds to a device: a fixed number of
// samples, in any order, by many workers at once.
//
//	import _ "github.com/pinion-gpu/pinion/dataset/all" // all formats
//
//	ds, err := dataset.Open(ctx, "photos", nil)         // or "train.npy"
//	defer dataset.Close(ds)
//	r, err := ds.NewReader()                            // one per worker
//	defer r.Close()
//	sample := make([]byte, ds.Spec().Bytes())
//	err = r.Read(ctx, dataset.Visit{Index: 17}, sample)
//
// A [Dataset] is safe for concurrent use. A [Reader] belongs to one worker and
// owns what decoding needs: buffers, a decoder, filters.
//
// # Formats
//
// Each format is a package below this one: photos, npy, nifti, points,
// safetensors, csv, jsonl, parquet, and tar, for shards in the layout of
// WebDataset; and stream, for tars that are compressed or come through a pipe, of
// [UnknownLen]. A program that knows what it reads calls that package, which has
// typed options. [Open] tells the format by what is there and takes [Options] by
// name; it knows the formats that the program imports. [Register] adds one, also
// from outside of this module.
//
// Three kinds of samples are part of this package: [Raw], a file of bare samples
// whose shape and type the caller knows; [Memory], samples that are in host
// memory already; and [Files], encoded files that a format makes samples of, such
// as a [Folder].
//
// # Samples of different lengths
//
// Sentences and point clouds differ in the length of axis 0. Then the spec is
// ragged: Shape[0] is the length of the longest, and [Length] and [SampleBytes]
// tell those of a sample without reading it.
//
// # Combining
//
// [Concat] puts datasets one behind the other, [Zip] side by side. [Subset] picks
// samples by number, [RandomSplit] deals all of them out by a seed. [Map] sends
// every sample through a function. They copy no samples, and keep using the
// datasets that they are made of, which stay the caller's to close. [Match] puts
// files into the order of others that they go with by name: masks into that of
// their photos.
//
// What is read for one [Visit] shares a [Frame], so that masks and boxes change
// along with the photo that they go with.
//
// # Abilities
//
// What only some datasets can do is an interface to ask for by [As]: [Ragged],
// [Encoded]. Behind a [Wrapper] it is found as well.
//
// # Errors
//
// Every error names the file, and the sample's element where there is one.
// [ErrEmpty], [ErrFormat], [ErrTooLarge], [ErrDamaged], [ErrMismatch],
// [ErrArgument], [ErrPanic] and [ErrUnavailable] can be told apart with
// [errors.Is], beside those of package io/fs for files that vanish or may not be
// read. What is wrong with one file of many is an error of its sample; [Warnings]
// tells how many there are.
package dataset
