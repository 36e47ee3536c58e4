// Package parquet reads Parquet files as datasets: rows of numbers, lists of
// numbers, and files such as pictures in columns of bytes.
//
//	ds, err := parquet.Open(ctx, "data/train-*.parquet", parquet.Options{Label: "class"})
//	ld, err := loader.New(dev, ds, loader.Options{Batch: 256})
//
// It registers the format "parquet", so that [dataset.Open] opens such files too:
// as pictures where there is a column of bytes, and else as numbers.
//
// # What a sample is
//
// [Open] makes samples of columns of numbers side by side, {columns}, or of one
// column of lists, {length}, ragged where lists differ in length: embeddings,
// tokens. Elements are of one type for all columns and files, the smallest that
// keeps every value unless [Options].DType says another. Nulls are errors
// unless [Options].Fill stands for them.
//
// [OpenFiles] makes [dataset.Files] of a column of bytes, also in a struct
// {bytes, path} as the Hugging Face hub stores pictures:
//
//	files, err := parquet.OpenFiles(ctx, "data/train-*.parquet", parquet.FileOptions{Label: "label"})
//	photos, err := photos.New(files, photos.Options{})
//
// Text, decimals, dates and lists of lists are not read; make numbers of them
// where the files are written.
//
// # Order
//
// A row of Parquet cannot be read alone: its row group is decoded as a whole,
// and kept in a cache that all readers share. Files that fit in it are decoded
// once. With larger ones, a random order of all samples decodes a row group for
// nearly every sample. An order that mixes some row groups at a time decodes
// each of them once in an epoch:
//
//	order, err := sampler.NewBlocks(ds.Shards(), 16, seed)
//
// There the cache, CacheBytes of the options, has to have room for two times 16
// row groups, since the next ones begin while workers still read the last.
//
// # Bad files
//
// What a file claims is checked before memory is allocated for it, and pages are
// decompressed into no more than they claim. Checksums of pages are not compared.
//
// # What is read
//
// Package internal/chunks reads footers and pages: all encodings but the levels of
// BIT_PACKED, which went out of use in 2013, and all codecs but LZO and the LZ4
// that is not raw. Numbers of 96 bits are not read.
package parquet
