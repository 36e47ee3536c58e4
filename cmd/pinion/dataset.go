package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/shard"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/internal/samplephotos"
	"github.com/pinion-gpu/pinion/internal/units"
)

// samplePhotos is how many photos the sample folder has: enough for some
// seconds of work on two processors.
const samplePhotos = 1024

// maxSize is the largest side that JPEG, and so a sample, can have.
const maxSize = 65535

// datasetHelp says what datasets there are, in the help of commands that take
// one.
const datasetHelp = `DATASET is a folder of photos (JPEG, PNG, WebP), a class in each sub-folder,
which are decoded and transformed; a folder of point clouds (KITTI .bin, PCD) or
volumes (NIfTI); tar shards (WebDataset): a file, a folder of them, a pattern
such as train-{000..127}.tar, or an http(s) URL of those; or a file, told by its
content: NumPy (.npy, .npz), safetensors, rows of numbers (CSV), JSON lines,
NIfTI. The first axis of an array counts the samples; u8 and u16 of shape N x H x
W x 1 to 4 are taken as images. Clouds and lines of JSON may differ in length:
batches are padded with zeros. With --raw it is a file of bare samples. Without
DATASET, a sample folder of photos is made in your cache directory and used.`

// datasetFlags say what is read, and how.
type datasetFlags struct {
	size, depth, channels        int
	transform, raw, field, label string
	targets                      []string

	parsed imaging.Transform // what transform says, once open has looked
}

func (f *datasetFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.IntVar(&f.size, "size", 224, "side of the square that photos become, in pixels")
	flags.IntVar(&f.depth, "depth", 8, "bits of each sample of photos: 8, or 16 for all that PNGs of 16 bits have")
	flags.IntVar(&f.channels, "channels", 3, "channels of photos: 3 for colour, or 1 for grey")
	flags.StringVar(&f.transform, "transform", "", "what becomes of photos, such as rrc:224,flip,jitter or resize:256,crop:224,bicubic (default: center:SIZE)")
	flags.StringVar(&f.raw, "raw", "", "`SHAPE,TYPE` of the samples of a file of nothing else, such as 256x256x3,u8")
	flags.StringVar(&f.field, "field", "", "`NAME` of the array, tensor or JSON field that holds the samples (default: the only one; of .npz also x, data or arr_0)")
	flags.StringArrayVar(&f.targets, "targets", nil, "`PATH` of what goes with the samples, such as a folder of masks for a folder of photos, matched by name, or an array, by number; again for more (default: nothing)")
	flags.StringVar(&f.label, "label", "", "`NAME` of the array, tensor, JSON field or column that holds the labels (default: none)")
}

// datasetArgs allows one dataset, or none.
func datasetArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return badUsage(cmd, "one folder or file is read at a time, but %d were given; shards are their folder, or a pattern such as 'train-{000..127}.tar' in quotes", len(args))
	}
	return nil
}

// open opens what the arguments and flags say.
func (f *datasetFlags) open(cmd *cobra.Command, args []string, line *progress) (ds dataset.Dataset, path string, err error) {
	if f.size < 1 && cmd.Flags().Changed("size") {
		return nil, "", badUsage(cmd, "--size is %d, but must be at least 1", f.size)
	}
	if f.size > maxSize {
		return nil, "", badUsage(cmd, "--size is %d, but must be at most %d", f.size, maxSize)
	}
	pixels := imaging.Options{Channels: f.channels}
	switch {
	case f.depth != 8 && f.depth != 16:
		return nil, "", badUsage(cmd, "--depth is %d, but must be 8 or 16", f.depth)
	case f.channels != 1 && f.channels != 3:
		return nil, "", badUsage(cmd, "--channels is %d, but must be 1 or 3", f.channels)
	case f.depth == 16:
		pixels.DType = dtype.U16
	}
	transform, err := imaging.ParseTransform(f.transform, f.size)
	if err != nil {
		return nil, "", badUsage(cmd, "--transform: %w", err)
	}
	f.parsed = transform
	var raw dataset.Spec
	if f.raw != "" {
		if raw, err = parseSpec(f.raw); err != nil {
			return nil, "", badUsage(cmd, "--raw: %w", err)
		}
		if len(args) == 0 {
			return nil, "", badUsage(cmd, "--raw is for a file, but none was named")
		}
	}
	if path, err = datasetPath(cmd, args, line); err != nil {
		return nil, "", err
	}
	if f.raw != "" {
		ds, err = dataset.OpenRaw(path, raw, dataset.RawOptions{})
	} else {
		ds, err = f.recognise(cmd.Context(), path, dataset.ImageOptions{Transform: transform, Decode: pixels}, line)
	}
	if err != nil {
		return nil, path, err
	}
	if err := cmp.Or(photosOnly(cmd, ds, path), f.namesOnly(cmd, ds, path), f.labelsFound(ds, path)); err != nil {
		return nil, path, errors.Join(err, closeDataset(ds))
	}
	return ds, path, nil
}

// recognise opens what is at path.
func (f *datasetFlags) recognise(ctx context.Context, path string, image dataset.ImageOptions, line *progress) (dataset.Dataset, error) {
	return dataset.Open(ctx, path, dataset.Options{
		Image:  image,
		NPZ:    dataset.NPZOptions{Array: f.field, Label: f.label},
		Tensor: dataset.TensorOptions{Tensor: f.field, Label: f.label},
		JSON:   dataset.JSONOptions{Field: f.field, Label: f.label, Ragged: true},
		CSV:    dataset.CSVOptions{Label: f.label},
		Tar:    dataset.TarOptions{Shards: shard.Options{LabelField: f.label, OnRetry: line.retry}},
	})
}

// photosOnly fails for flags that ds, which is no photos, has no use for.
func photosOnly(cmd *cobra.Command, ds dataset.Dataset, path string) error {
	if _, photos := ds.(*dataset.Images); photos {
		return nil
	}
	for _, name := range []string{"size", "depth", "channels", "transform"} {
		if cmd.Flags().Changed(name) {
			return badUsage(cmd, "--%s is for photos, but %s has samples of %v", name, path, ds.Spec())
		}
	}
	return nil
}

// namesOnly fails for names of parts that ds does not have.
func (f *datasetFlags) namesOnly(cmd *cobra.Command, ds dataset.Dataset, path string) error {
	fields, labels := false, false
	switch d := ds.(type) {
	case *dataset.NPZ, *dataset.SafeTensors, *dataset.JSONLines:
		fields, labels = true, true
	case *dataset.CSV, *dataset.Arrays:
		labels = true
	case *dataset.Images:
		_, labels = d.Files.(*dataset.Tar)
	}
	switch {
	case f.field != "" && !fields:
		return badUsage(cmd, "--field is for .npz, safetensors and JSON lines, and %s is none of them", path)
	case f.label != "" && !labels:
		return badUsage(cmd, "--label is for .npz, safetensors, JSON lines, CSV and tar shards, and %s is none of them", path)
	}
	return nil
}

// labelsFound fails where shards have no label of the name that was given: each
// sample may lack it, but not all.
func (f *datasetFlags) labelsFound(ds dataset.Dataset, path string) error {
	switch ds.(type) {
	case *dataset.Images, *dataset.Arrays:
	default:
		return nil
	}
	if f.label == "" {
		return nil
	}
	for i := range ds.Len() {
		if ds.Label(i) >= 0 {
			return nil
		}
	}
	return fmt.Errorf("%s: none of %s has a label in the field %q of --label", path, units.Count(ds.Len(), "sample"), f.label)
}

// closeDataset closes a dataset that has to be closed.
func closeDataset(ds dataset.Dataset) error {
	if closer, ok := ds.(io.Closer); ok {
		return closer.Close()
	}
	return nil
}

// parseSpec reads the form of a sample: 256x256x3,u8, or a type alone for
// scalars.
func parseSpec(text string) (spec dataset.Spec, err error) {
	shape, name, found := strings.Cut(text, ",")
	if !found {
		shape, name = "", shape
	}
	if spec.DType, err = dtype.Parse(name); err != nil {
		return spec, err
	}
	if shape == "" {
		return spec, nil
	}
	for _, side := range strings.Split(shape, "x") {
		n, err := strconv.Atoi(side)
		if err != nil || n < 1 {
			return spec, fmt.Errorf("%q is not a shape such as 256x256x3", shape)
		}
		spec.Shape = append(spec.Shape, n)
	}
	return spec, nil
}

// datasetPath is what to read: the argument, or the sample photos, which are made
// if they are not there.
func datasetPath(cmd *cobra.Command, args []string, line *progress) (string, error) {
	if len(args) == 1 {
		return args[0], nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("there is no place for sample photos; name a folder of your own: %w", err)
	}
	dir := filepath.Join(cache, "pinion", fmt.Sprintf("sample-photos-%d", samplePhotos))
	_, statErr := os.Stat(dir)
	if err := samplephotos.Make(cmd.Context(), dir, samplePhotos, func(done, total int) {
		line.show(done, total, "making sample photos")
	}); err != nil {
		return "", fmt.Errorf("the sample photos (56 MB) could not be made in %s; name a folder of your own, or another place by XDG_CACHE_HOME: %w", dir, err)
	}
	line.clear()
	made := "made before"
	if statErr != nil {
		made = "just made"
	}
	line.message("No folder given: using %d sample photos, %s, in %s", samplePhotos, made, dir)
	return dir, nil
}
