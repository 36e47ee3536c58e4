// Package shard reads samples from tar files in the layout of WebDataset, in
// any order, from disk or from a web server.
//
//	set, err := shard.Open(ctx, "https://example.org/train-{000..127}.tar", shard.Options{})
//	defer set.Close()
//	photos, err := set.View("jpg", "png")     // one member of every sample
//	content, err := photos.Read(ctx, 17, nil)
//	caption, err := set.Read(ctx, 17, "txt", nil)
//
// It knows nothing of pictures or batches; package dataset/tar makes datasets of
// shards. Tars that cannot be read in any order, because they are compressed or
// come through a pipe, are read by package dataset/stream.
//
// # Samples
//
// A sample is a run of members whose names are equal up to the first dot of
// the last part: n01/0017.jpg, n01/0017.cls and n01/0017.seg.png are the
// members jpg, cls and seg.png of the sample n01/0017.
//
// # Labels
//
// The label of a sample is in its member cls, in another member ([Options].Label),
// or in a field of a member that is JSON ([Options].LabelField). It is a whole
// number or text, without the white space around it. An empty label and -1 are
// none.
//
// Text becomes a class: an index into the sorted list of all distinct texts of the
// set ([Set.Classes]), which does not depend on the order of the shards. There may
// be 262,144 texts of up to 1 KiB, 16 MiB in all; more of them, such as captions,
// fail with [ErrTooLarge]. Numbers and texts do not mix: a set with both fails with
// [ErrFormat], and so do numbers that are no class, such as 0.5.
//
// A member called __classes__, a JSON array of strings, names the classes to
// which the numbers in cls are indexes. Text is looked up in it where all shards
// have the same one and it has all texts of the set; otherwise the sorted list
// counts. [Writer] puts it at the start of every shard, so that each is complete;
// WebDataset's readers skip such names. The index has it too, and the texts of
// labels, so the classes of remote shards cost no request.
//
// # What is refused
//
// Nothing is ever extracted. Links, devices, sparse files and paths that lead
// out of the archive are refused nevertheless: they are not samples. Folders are
// skipped, and so are names that belong to no sample ([Set.Skipped]).
//
// # Index
//
// Reading in any order takes an index, about 30 bytes per member. It is built by
// reading headers, and kept beside the shard (shard.tar.index, which [Writer]
// writes) or in the cache. A cached index belongs to one version of a shard, by
// size and time or ETag. One beside the shard must match its size, and on disk
// must not be older than it. Every read checks the member's header against the
// index.
//
// Publish the indexes with the shards: without them, remote shards have to be
// fetched once before the first sample.
//
// # Servers
//
// A server must support range requests, and should tell versions apart by ETag or
// Last-Modified; a shard that changes while it is read is an error. A request
// that fails, stalls or is cut short is tried again after a growing random pause,
// or the pause that the server asks for, until [Options].Retries or
// [Options].GiveUp is reached; then it fails with [ErrUnavailable]. What does not
// exist, is forbidden or is wrong fails at once.
//
// Shards are fetched in aligned blocks of 4 MiB, so that the first sample comes
// soon and a cache smaller than the shards still helps. Blocks are kept in a
// folder with checksums, up to a limit, and can be shared by processes. A block
// that several readers want is fetched once, and reading in order fetches the
// next blocks ahead.
//
// A random order over more shards than the cache holds fetches a block for
// almost every sample. sampler.NewBlocks, given [View.Shards], shuffles shards,
// and samples within a window of a few: choose the window so that it fits the
// cache.
package shard
