// Package shard reads samples from tar files in the layout of WebDataset, in
// any order, from disk or from a web server.
//
//	set, err := shard.Open(ctx, "https://example.org/train-{000..127}.tar", shard.Options{})
//	defer set.Close()
//	photos, err := set.View("jpg", "png")     // one member of every sample
//	content, err := photos.Read(ctx, 17, nil)
//	caption, err := set.Read(ctx, 17, "txt", nil)
//
// It knows nothing of pictures and batches: package dataset makes datasets of
// shards (OpenTar, NewImages, NewArrays) and uses this package to do so.
//
// # Samples
//
// A sample is a run of members whose names are equal up to the first dot of
// the last part: n01/0017.jpg, n01/0017.cls and n01/0017.seg.png are the
// members jpg, cls and seg.png of the sample n01/0017. Its label is the number
// in the member cls, or a field of a member that is JSON ([Options].LabelField).
//
// A member called __classes__, a JSON array of strings, names the classes that
// the numbers in cls count from 0 ([Set.Classes]). [Writer] puts it first into
// each shard, so that each is complete, and WebDataset's readers pass over names
// of this kind. The index has it too, so the names of shards on a server cost
// no request.
//
// Nothing is ever extracted. Links, devices, sparse files and paths that lead
// out of the archive are refused all the same: who packs them packs something
// else than samples. Folders are passed over, and so are names that make no
// sample ([Set.Skipped]).
//
// # Index
//
// To read a sample out of order, one must know where it is. The index of a
// shard takes 30 bytes or so per member, is made by reading headers, and is
// kept: beside the shard (shard.tar.index, which [Writer] makes), or in the
// cache. An index in the cache belongs to one version of a shard, by size and time
// or ETag; one beside it to a shard of that size, which on disk is not newer than
// the index; and each read compares the header before the member with it.
//
// Publish the indexes with the shards: without, the shards of a web server
// have to be fetched once before the first sample.
//
// # Servers
//
// A server must support range requests and tell versions apart by ETag or
// Last-Modified; a shard that changes while it is read is an error. Requests
// that fail, stall or are cut short are made again, after pauses that grow and
// are random, or for as long as the server asks; after the last one there is
// [ErrUnavailable]. What is not there, not allowed or wrong fails at once.
//
// Shards are fetched in aligned blocks of 4 MiB rather than whole, so that the
// first sample comes soon and a cache that is smaller than the shards is still
// of use. Blocks are kept in a folder, with checksums, within a limit, and may
// be shared by processes. A block that several readers want is fetched once,
// and when a shard is read in order, the next ones are fetched ahead.
//
// A random order over more shards than the cache holds fetches a block for
// almost every sample. sampler.NewBlocks, given [View.Shards], shuffles shards,
// and samples within a window of a few: choose the window so that it fits the
// cache.
package shard
