package main

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/pipeline"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/tunereport"
	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/internal/cpuname"
	"github.com/pinion-gpu/pinion/internal/provenance"
	"github.com/pinion-gpu/pinion/internal/texttable"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/tune"
)

// tuneOutput is the JSON document of pinion tune.
type tuneOutput struct {
	provenance.Record
	Dataset    string               `json:"dataset"`
	Samples    int                  `json:"samples,omitempty"` // of the dataset; 0: a stream, nobody knows
	Spec       string               `json:"spec"`
	Targets    []pipeline.TargetRow `json:"targets,omitempty"`
	AgeSeconds float64              `json:"age_seconds"` // of a result that was kept; 0: it is new
	NotKept    string               `json:"not_kept_reason,omitempty"`
	*tune.Result
	Go      string   `json:"go"`
	PyTorch string   `json:"pytorch"`
	Why     []string `json:"reasons"`
	Report  string   `json:"report_file,omitempty"`
}

func newTuneOutput(in *pipeline.Input) *tuneOutput {
	info := in.Device.Info()
	o := &tuneOutput{
		Record:  provenance.Now().On(info.ID, info.Name),
		Dataset: in.Path, Samples: in.Dataset.Len(), Spec: in.Dataset.Spec().String(), Targets: in.TargetRows(),
	}
	if o.Samples == dataset.UnknownLen {
		o.Samples = 0
	}
	return o
}

// samples says how many there are, and what one is.
func (o *tuneOutput) samples() string {
	if o.Samples == 0 {
		return "a stream of samples of " + o.Spec
	}
	return fmt.Sprintf("%s of %s", units.Count(o.Samples, "sample"), o.Spec)
}

// writeReport writes the page.
func (o *tuneOutput) writeReport(w io.Writer) error {
	var targets []string
	for _, t := range o.Targets {
		targets = append(targets, t.String())
	}
	return tunereport.Render(w, &tunereport.Report{
		Dataset: o.Dataset, Samples: o.samples(), Targets: targets, Device: o.DeviceName, Platform: o.Platform,
		CPU: cpuname.Name(), CPUs: o.CPUs, Commit: o.Commit, Result: o.Result,
	})
}

// mostRows is how many settings are listed; the page and JSON have all.
const mostRows = 10

func (o *tuneOutput) print(w io.Writer) {
	r := o.Result
	fmt.Fprintf(w, "%s  %s\n", o.Device, o.DeviceName)
	fmt.Fprintf(w, "%s: %s\n", o.Dataset, o.samples())
	for _, t := range o.Targets {
		fmt.Fprintln(w, t)
	}
	tried := 0
	for _, s := range r.Settings {
		if s.Trials > 0 {
			tried++
		}
	}
	fmt.Fprintf(w, "%s of %d of %d settings, %s", units.Count(r.Trials, "trial"), tried, r.GridSize, units.Seconds(r.Seconds))
	if o.AgeSeconds > 0 {
		fmt.Fprintf(w, "; kept from %s ago, --fresh measures anew", age(o.AgeSeconds))
	}
	fmt.Fprint(w, "\n\n")
	name := "Best"
	if doubt := r.Doubt(); doubt != "" {
		fmt.Fprintf(w, "%s\n\n", doubt)
		name = "Guess"
	}
	fmt.Fprintf(w, "%s: %v\n", name, r.Best)
	fmt.Fprintf(w, "  %.0f samples/s; %s pinned, %s of host memory, %s of device memory\n",
		r.PerSecond, units.Bytes(r.PinnedBytes), units.Bytes(r.HostBytes), units.Bytes(r.DeviceBytes))
	if r.StepSeconds > 0 {
		fmt.Fprintf(w, "  with steps of %s the device waits %s of the time\n", units.Seconds(r.StepSeconds), units.Percent(r.DeviceWait))
	}
	if r.Unread > 0 {
		fmt.Fprintf(w, "  %s could not be read in the trials: %d left out, %d replaced; one counts in each trial that meets it\n",
			units.Count(r.Unread, "sample"), r.Unread-r.Replaced, r.Replaced)
	}
	if g := r.Grid; g != nil {
		fmt.Fprintf(w, "  %s ± %s of the best of all %d settings (%v), measured beside it in %s\n",
			units.Percent(g.Ratio), units.Percent(g.Error), g.Settings, g.Best, units.Count(g.LastRounds, "round"))
	}
	fmt.Fprintf(w, "\nLimit: %s\n", r.Limit.Name)
	for _, why := range r.Why() {
		fmt.Fprintf(w, "  %s\n", why)
	}
	fmt.Fprintln(w)
	o.printSettings(w)
	fmt.Fprintf(w, "\nGo:       %s\nPyTorch:  %s\n", r.Best.Go(), r.PyTorch())
	if o.NotKept != "" {
		fmt.Fprintf(w, "\nThe result could not be kept: %s\n", o.NotKept)
	}
	if o.Report != "" {
		fmt.Fprintf(w, "\nReport: %s\n", o.Report)
	}
}

func (o *tuneOutput) printSettings(w io.Writer) {
	staged := slices.ContainsFunc(o.Settings, func(s tune.Row) bool { return s.Copiers > 0 })
	head := []string{">WORKERS", ">BATCH", ">PREFETCH", "MEMORY", ">SAMPLES/S", ">MIN", ">MAX", ">MODEL", ">PINNED", ">TRIALS"}
	if staged {
		head = slices.Insert(head, 4, ">COPIERS", ">CHUNK")
	}
	if o.StepSeconds > 0 {
		head = append(head, ">WAITS")
	}
	if o.Best.Decode != "" {
		head = append(head, "DECODE")
	}
	t := texttable.New(head...)
	listed, rest, refused, why := 0, 0, 0, ""
	for _, s := range o.Settings {
		switch {
		case s.Refused != "":
			refused, why = refused+1, s.Refused
			continue
		case listed == mostRows:
			rest++
			continue
		}
		listed++
		memory := "pageable"
		if s.Pin {
			memory = "pinned"
		}
		row := []string{fmt.Sprint(s.Workers), fmt.Sprint(s.Batch), fmt.Sprint(s.Prefetch), memory}
		if staged {
			copiers, chunk := "", ""
			if s.Copiers > 0 {
				copiers, chunk = fmt.Sprint(s.Copiers), units.Bytes(s.ChunkBytes)
			}
			row = append(row, copiers, chunk)
		}
		row = append(row, whole(s.Rate()), whole(s.Least), whole(s.Most), whole(s.Predicted), units.Bytes(s.PinnedBytes), fmt.Sprint(s.Trials))
		if o.StepSeconds > 0 {
			row = append(row, units.Percent(s.DeviceWait))
		}
		if o.Best.Decode != "" {
			row = append(row, s.Decode)
		}
		t.Add(row...)
	}
	t.Write(w)
	if rest > 0 {
		fmt.Fprintf(w, "and %d more that were tried\n", rest)
	}
	if refused > 0 {
		fmt.Fprintf(w, "%s left out, such as: %s\n", units.Count(refused, "setting"), why)
	}
	fmt.Fprintln(w, "MIN and MAX are single trials, as measured. From SAMPLES/S of the last race, whose settings come first, the drift of the machine is taken out.")
}

func whole(v float64) string { return fmt.Sprintf("%.0f", v) }

// age prints how old something is in its largest unit.
func age(s float64) string {
	d := time.Duration(s * 1e9)
	switch {
	case d < time.Minute:
		return units.Count(d/time.Second, "second")
	case d < time.Hour:
		return units.Count(d/time.Minute, "minute")
	case d < 24*time.Hour:
		return units.Count(d/time.Hour, "hour")
	}
	return units.Count(d/(24*time.Hour), "day")
}
