// Package tar makes datasets of tar shards in the layout of WebDataset, on disk or on a
// web server, and packs folders of pictures into such shards. Package shard reads
// the shards.
//
//	files, err := tar.OpenFiles(ctx, "train-{000..127}.tar", tar.Options{})
//
// Importing it registers the format with [dataset.Open].
package tar
