package dataset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pinion-gpu/pinion/dataset/shard"
)

// Options configures [Open]. The zero value works.
type Options struct {
	// Image says how the images of a folder are read.
	Image ImageOptions
	// Points says how the point clouds of a folder are read.
	Points PointOptions
	// Volume says how NIfTI volumes are read.
	Volume VolumeOptions
	// NPZ says which arrays of a .npz file are read.
	NPZ NPZOptions
	// Tensor says which tensors of a .safetensors file are read.
	Tensor TensorOptions
	// JSON says how a file of JSON lines is read.
	JSON JSONOptions
	// CSV says how a file of rows of numbers is read.
	CSV CSVOptions
	// Tar says how tar shards are read.
	Tar TarOptions
}

type opener func(ctx context.Context, path string, opts Options) (Dataset, error)

// folderKinds are the kinds of folders. What a folder holds first of them, it
// is.
var folderKinds = []struct {
	name string
	open opener
}{
	{"images (" + strings.Join(imageExtensions, ", ") + ")", func(ctx context.Context, path string, o Options) (Dataset, error) {
		return OpenImageFolder(ctx, path, o.Image)
	}},
	{"points (" + strings.Join(pointExtensions, ", ") + ")", func(ctx context.Context, path string, o Options) (Dataset, error) {
		return OpenPointClouds(ctx, path, o.Points)
	}},
	{"volumes (" + strings.Join(niftiExtensions, ", ") + ")", func(ctx context.Context, path string, o Options) (Dataset, error) {
		return OpenVolumes(ctx, path, o.Volume)
	}},
}

// fileKinds are the kinds of files, which are told apart by how they begin.
var fileKinds = []struct {
	name string
	is   func(h fileHead) bool
	open opener
}{
	{"NumPy array", begins(npyMagic), func(_ context.Context, path string, _ Options) (Dataset, error) { return OpenNPY(path) }},
	{"npz", begins(zipMagic, zipMagicEmpty), func(ctx context.Context, path string, o Options) (Dataset, error) { return OpenNPZ(ctx, path, o.NPZ) }},
	{"NIfTI", func(h fileHead) bool { return niftiHead(h.bytes) }, func(ctx context.Context, path string, o Options) (Dataset, error) {
		return OpenNIfTI(ctx, path, o.Volume)
	}},
	{"tar", func(h fileHead) bool { return tarHead(h.bytes) }, openTar},
	{"safetensors", func(h fileHead) bool { return tensorsHead(h.bytes, h.size) }, func(_ context.Context, path string, o Options) (Dataset, error) {
		return OpenSafeTensors(path, o.Tensor)
	}},
	{"JSON lines", func(h fileHead) bool { return jsonHead(h.bytes, h.whole()) }, func(ctx context.Context, path string, o Options) (Dataset, error) {
		return OpenJSONLines(ctx, path, o.JSON)
	}},
	{"rows of numbers", func(h fileHead) bool { return csvHead(h.bytes, h.whole()) }, func(ctx context.Context, path string, o Options) (Dataset, error) {
		return OpenCSV(ctx, path, o.CSV)
	}},
}

// fileHead is how a file begins.
type fileHead struct {
	bytes []byte // at most sniffBytes
	size  int64  // of the file
}

// sniffBytes is how much of a file [Open] looks at.
const sniffBytes = 64 << 10

func (h fileHead) whole() bool { return int64(len(h.bytes)) == h.size }

// begins makes a function that finds a file that begins with one of those.
func begins(magic ...string) func(fileHead) bool {
	return func(h fileHead) bool {
		return slices.ContainsFunc(magic, func(m string) bool { return bytes.HasPrefix(h.bytes, []byte(m)) })
	}
}

// Open opens the dataset at path and tells its kind by what is there. A folder
// is an [Images], or where it has no images a [PointClouds] or a [Volumes], by
// the names of its files. A file that begins as one is an [NPY], [NPZ],
// [NIfTI] or [SafeTensors]; a text whose first line is a JSON object or array
// is a [JSONLines], and one whose first or second row is all numbers, or that
// is called .csv or .tsv, a [CSV]. A tar, a folder of .tar files, a pattern such
// as train-{000..127}.tar and a URL of those are [Images] of the pictures in
// them, or else [Arrays]. Anything else fails with [ErrFormat]. The end of ctx
// cuts short what takes long: listing folders, indexing shards, reading text,
// decompressing. A result that is an [io.Closer] must be closed.
func Open(ctx context.Context, path string, opts Options) (Dataset, error) {
	if shard.Is(path) {
		return openTar(ctx, path, opts)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return openFolder(ctx, path, opts)
	}
	head, err := readHead(path)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, k := range fileKinds {
		if k.is(head) {
			return k.open(ctx, path, opts)
		}
		names = append(names, k.name)
	}
	if ext := strings.ToLower(filepath.Ext(path)); ext == ".csv" || ext == ".tsv" {
		return OpenCSV(ctx, path, opts.CSV) // it says which field is no number
	}
	return nil, fmt.Errorf("%s: %w: neither a folder nor one of %s; %d bytes that begin with %q",
		path, ErrFormat, strings.Join(names, ", "), head.size, head.bytes[:min(len(head.bytes), 8)])
}

func openFolder(ctx context.Context, dir string, opts Options) (Dataset, error) {
	var names []string
	for _, k := range folderKinds {
		d, err := k.open(ctx, dir, opts)
		if !errors.Is(err, ErrEmpty) {
			return d, err
		}
		names = append(names, k.name)
	}
	return nil, fmt.Errorf("%s: %w: no %s in it and its sub-folders", dir, ErrEmpty, strings.Join(names, ", no "))
}

func readHead(path string) (fileHead, error) {
	f, size, err := openRegular(path)
	if err != nil {
		return fileHead{}, err
	}
	defer f.Close()
	head := make([]byte, min(sniffBytes, size))
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && err != io.EOF {
		return fileHead{}, err
	}
	return fileHead{head[:n], size}, nil
}

// checkRegular keeps away from pipes and devices, which could block for ever.
func checkRegular(path string, info os.FileInfo) error {
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s: %w: not a regular file but %v", path, ErrFormat, info.Mode())
	}
	return nil
}
