package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/loader"
)

// input is a dataset and the device that it is fed to.
type input struct {
	ds     dataset.Dataset
	path   string
	with   []target // its samples
	dev    device.Device
	opened time.Duration // that it took to open the device
	line   *progress
}

// use opens what the arguments and flags say, and closes it after fn. Prepare
// is called before the device is opened.
func (f *pipelineFlags) use(cmd *cobra.Command, args []string, prepare func(dataset.Dataset) error, fn func(*input) error) (err error) {
	in := &input{line: newProgress(cmd)}
	defer in.line.clear()
	if in.ds, in.path, err = f.open(cmd, args, in.line); err != nil {
		return advise(err, fmt.Sprintf("without a DATASET, %q uses sample photos", cmd.CommandPath()))
	}
	defer func() { err = errors.Join(err, dataset.Close(in.ds)) }()
	for _, path := range f.targets {
		ds, openErr := openTarget(cmd.Context(), path, in.ds, in.line)
		if openErr != nil {
			return fmt.Errorf("--targets: %w", openErr)
		}
		defer func() { err = errors.Join(err, dataset.Close(ds)) }()
		in.with = append(in.with, target{ds, path})
	}
	if err := prepare(in.ds); err != nil {
		return err
	}
	start := time.Now()
	if in.dev, err = openDevice(cmd, *f.device); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.dev.Close()) }()
	in.opened = time.Since(start)
	err = fn(in)
	var sample *loader.SampleError
	if errors.As(err, &sample) && policies[f.onError] == loader.Fail {
		return fmt.Errorf("%w; --on-error skip leaves such samples out", err)
	}
	return err
}
