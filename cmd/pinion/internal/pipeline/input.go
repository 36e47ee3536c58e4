package pipeline

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/cli"
	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/recipe"
	"github.com/pinion-gpu/pinion/loader"
)

// input is a dataset and the device that it is fed to.
type Input struct {
	Dataset dataset.Dataset
	Path    string // as it was given
	Device  device.Device
	Opened  time.Duration // how long opening the device took
	Line    *cli.Progress

	with []target // the samples
}

// Use opens what the arguments and flags say, and closes it after fn. Prepare
// is called before the device is opened.
func (f *Flags) Use(cmd *cobra.Command, args []string, prepare func(dataset.Dataset) error, fn func(*Input) error) (err error) {
	if err := cli.CheckDevice(cmd, *f.device); err != nil {
		return err
	}
	in := &Input{Line: cli.NewProgress(cmd)}
	defer in.Line.Clear()
	if in.Dataset, in.Path, err = f.open(cmd, args, in.Line); err != nil {
		return cli.Advise(err, fmt.Sprintf("without a DATASET, %q uses sample photos", cmd.CommandPath()))
	}
	defer func() { err = errors.Join(err, dataset.Close(in.Dataset)) }()
	if labels := dataset.Targets(in.Dataset); labels != nil {
		in.with = append(in.with, target{labels, "the labels"})
	}
	for _, path := range f.targets {
		ds, openErr := recipe.OpenTarget(cmd.Context(), path, in.Dataset, openOptions(in.Line))
		if openErr != nil {
			return fmt.Errorf("--targets: %w", openErr)
		}
		defer func() { err = errors.Join(err, dataset.Close(ds)) }()
		in.with = append(in.with, target{ds, path})
	}
	if err := prepare(in.Dataset); err != nil {
		return err
	}
	start := time.Now()
	if in.Device, err = cli.OpenDevice(cmd, *f.device); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Device.Close()) }()
	in.Opened = time.Since(start)
	err = fn(in)
	var sample *loader.SampleError
	if errors.As(err, &sample) && recipe.Policies[f.onError] == loader.Fail {
		return fmt.Errorf("%w; --on-error skip leaves such samples out", err)
	}
	return err
}

// target is a dataset that goes with another one.
type target struct {
	ds   dataset.Dataset
	path string
}

// Targets are the datasets that go with it, for the loader.
func (in *Input) Targets() (list []dataset.Dataset) {
	for _, t := range in.with {
		list = append(list, t.ds)
	}
	return list
}

// TargetRow is a target in a report.
type TargetRow struct {
	Dataset string `json:"dataset"`
	Sample  string `json:"sample"` // shape and type
}

func (t TargetRow) String() string { return fmt.Sprintf("with each %s of %s", t.Sample, t.Dataset) }

// TargetRows are the rows about them in a report.
func (in *Input) TargetRows() (rows []TargetRow) {
	for _, t := range in.with {
		rows = append(rows, TargetRow{t.path, t.ds.Spec().String()})
	}
	return rows
}
