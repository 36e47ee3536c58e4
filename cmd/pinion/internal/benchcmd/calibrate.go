package benchcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/cli"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/provenance"
	"github.com/pinion-gpu/pinion/internal/texttable"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/transfer/calibrate"
	"github.com/pinion-gpu/pinion/transfer/linkmodel"
)

// calibrate measures the model of the link, keeps it and prints it.
func (f *linkFlags) calibrate(cmd *cobra.Command) error {
	line := cli.NewProgress(cmd)
	out, err := cli.Promptly(cmd.Context(), func() (*calibrationOutput, error) { return f.keepModel(cmd, line) })
	line.Clear()
	if err != nil {
		return err
	}
	for n := int64(1 << 10); n <= 1<<30; n *= 4 {
		for _, toHost := range []bool{false, true} {
			out.Choices = append(out.Choices, choiceOutput{n, directionText(toHost), out.Model.Choice(n, toHost)})
		}
	}
	if f.json {
		return cli.PrintJSON(cmd, out)
	}
	return cli.PrintText(cmd, out.print)
}

// keepModel opens the device, measures its model and keeps it.
func (f *linkFlags) keepModel(cmd *cobra.Command, line *cli.Progress) (out *calibrationOutput, err error) {
	dev, err := cli.OpenDevice(cmd, *f.device)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	_, missing := linkmodel.Load(dev)
	start := time.Now()
	m, err := calibrate.Run(cmd.Context(), dev, calibrate.Options{Progress: line.Show})
	if err != nil {
		return nil, err
	}
	out = &calibrationOutput{Record: provenance.Now().On(dev.Info().ID, dev.Info().Name), Seconds: time.Since(start).Seconds(), Model: m}
	if missing != nil {
		out.Replaced = missing.Error()
	}
	out.File, err = m.Save(dev)
	return out, err
}

// ensureModel measures the model of dev where there is none, so that what is
// measured afterwards is what a calibrated engine does.
func ensureModel(cmd *cobra.Command, dev device.Device, progress func(step, steps int, what string)) error {
	_, _, err := calibrate.LoadOrRun(cmd.Context(), dev, calibrate.Options{Progress: progress})
	if errors.Is(err, context.Canceled) {
		return err
	}
	return nil // an engine works without
}

type calibrationOutput struct {
	provenance.Record
	File     string           `json:"model_file"`
	Replaced string           `json:"no_model_reason,omitempty"` // why there was none before
	Seconds  float64          `json:"calibration_seconds"`
	Model    *linkmodel.Model `json:"model"`
	Choices  []choiceOutput   `json:"choices"`
}

type choiceOutput struct {
	Bytes     int64  `json:"bytes"`
	Direction string `json:"direction"`
	linkmodel.Choice
}

func directionText(toHost bool) string {
	if toHost {
		return "d2h"
	}
	return "h2d"
}

func (o *calibrationOutput) print(w io.Writer) {
	fmt.Fprintf(w, "%s  %s  %s\n\n", o.Device, o.Model.Machine.Device, o.Model.Machine.Link)
	fmt.Fprintln(w, "Pageable memory, the path for each size:")
	t := texttable.New(">SIZE", "DIRECTION", "PATH", ">COPIERS", "STORES", ">TIME", ">GB/s")
	for _, c := range o.Choices {
		copiers, stores := "", ""
		if c.Copiers > 0 {
			copiers, stores = fmt.Sprint(c.Copiers), "ordinary"
			if c.PastCaches {
				stores = "past caches"
			}
		}
		t.Add(units.Bytes(c.Bytes), directions[c.Direction], c.Path, copiers, stores,
			units.Seconds(c.Seconds), cli.GBPerS(float64(c.Bytes)/c.Seconds/1e9))
	}
	t.Write(w)

	fmt.Fprintln(w, "\nOne copy, as latency + bytes / rate:")
	t = texttable.New("PATH", "DIRECTION", ">LATENCY", ">GB/s")
	for _, p := range append(append([]linkmodel.Path{}, o.Model.Pinned...), o.Model.Paths...) {
		if p.Copiers > 1 {
			continue // one line for all sizes says little of them
		}
		name := p.Path
		switch {
		case name == "plain":
			name = "pageable, plain"
		case p.Copiers == 1 && !p.PastCaches:
			continue
		case p.Copiers == 1:
			name = "pageable, 1 copier"
		}
		latency, rate := p.Curve.Fit()
		t.Add(name, directions[directionText(p.ToHost)], units.Duration(latency), cli.GBPerS(rate/1e9))
	}
	t.Write(w)

	fmt.Fprintln(w, "\nBlocks of pinned or device memory: GB/s by the size of a block, many at once")
	t = texttable.New("PATH", "DIRECTION", ">CALL", ">4 KiB", ">16 KiB", ">64 KiB", ">256 KiB", ">1 MiB")
	for _, b := range o.Model.Batches {
		row := []string{string(b.Path), directions[b.Direction], units.Seconds(b.CallSeconds)}
		for n := int64(4 << 10); n <= 1<<20; n *= 4 {
			row = append(row, units.Digits(float64(n)/b.Block.At(n)/1e9))
		}
		t.Add(row...)
	}
	t.Write(w)
	fmt.Fprintf(w, "\nMeasured in %s, kept in %s\n", units.Seconds(o.Seconds), o.File)
}
