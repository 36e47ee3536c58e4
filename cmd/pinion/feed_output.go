package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/feed"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/pipeline"
	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/internal/provenance"
	"github.com/pinion-gpu/pinion/internal/texttable"
	"github.com/pinion-gpu/pinion/internal/units"
)

// feedOutput is the JSON document of pinion feed.
type feedOutput struct {
	provenance.Record
	Dataset            string               `json:"dataset"`
	Classes            int                  `json:"classes,omitempty"` // with names, which labels are of; 0: none
	Targets            []pipeline.TargetRow `json:"targets,omitempty"`
	JPEGDecoder        string               `json:"jpeg_decoder,omitempty"`
	DecodeDevice       bool                 `json:"decode_on_device"`
	DecodeReason       string               `json:"decode_reason,omitempty"` // why not
	Batch              int                  `json:"batch"`
	BatchReason        string               `json:"batch_reason,omitempty"` // why --batch auto is not more
	BatchShape         []int                `json:"batch_shape"`
	DType              string               `json:"dtype"`
	Samples            int64                `json:"samples"`
	Batches            int64                `json:"batches"`
	FailedSamples      int64                `json:"failed_samples"`
	ReplacedSamples    int64                `json:"replaced_samples"` // of those that failed
	Failures           []unreadRow          `json:"failures"`
	InitSeconds        float64              `json:"initialisation_seconds"`
	Seconds            float64              `json:"seconds"`
	SamplesPerS        float64              `json:"samples_per_s"`
	H2DBytes           int64                `json:"h2d_bytes"`
	H2DGBPerS          float64              `json:"h2d_gb_per_s"`
	DeviceWaitFraction float64              `json:"device_wait_fraction"`
	Limit              string               `json:"limit,omitempty"` // none where nothing was fed
	Workers            int                  `json:"workers"`
	Slabs              int                  `json:"slabs"`
	DeviceBuffers      int                  `json:"device_buffers"`
	HostBytes          int64                `json:"host_bytes"`
	DeviceBytes        int64                `json:"device_bytes"`
	Pinned             bool                 `json:"pinned"`
	PageableReason     string               `json:"pageable_reason,omitempty"`
	StagingBytes       int64                `json:"staging_bytes"` // pinned, through which pageable memory is copied
	Stages             []stageRow           `json:"stages"`
	Epochs             []epochRow           `json:"epochs"`
	Checksum           string               `json:"checksum,omitempty"`
	classes            []string
}

type stageRow struct {
	Stage            string  `json:"stage"`
	Where            string  `json:"where"`
	Seconds          float64 `json:"seconds"`
	SecondsPerSample float64 `json:"seconds_per_sample"`
	BusyFraction     float64 `json:"busy_fraction"` // of the time that the workers, or the device, had
}

type epochRow struct {
	Samples         int64   `json:"samples"`
	Seconds         float64 `json:"seconds"`
	SamplesPerS     float64 `json:"samples_per_s"`
	DeviceFreeBytes int64   `json:"device_free_bytes"`
	HostBytes       int64   `json:"host_bytes"`
	HeapBytes       int64   `json:"heap_bytes"`
}

func newFeedOutput(in *pipeline.Input, r *feed.Report, unread *unreadSamples) *feedOutput {
	info := in.Device.Info()
	out := &feedOutput{
		Record:  provenance.Now().On(info.ID, info.Name),
		Dataset: in.Path, Targets: in.TargetRows(), classes: dataset.Classes(in.Dataset),
		Batch: r.Batch, BatchReason: r.BatchWhy, BatchShape: r.Shape, DType: r.DType.String(),
		Samples: r.Samples, Batches: r.Batches,
		FailedSamples: r.Errors, ReplacedSamples: r.Replaced, Failures: append([]unreadRow{}, unread.rows...),
		InitSeconds:        (in.Opened + r.Prepared).Seconds(),
		Seconds:            r.Elapsed.Seconds(),
		SamplesPerS:        float64(r.Samples) / r.Elapsed.Seconds(),
		H2DBytes:           r.BytesToDevice,
		H2DGBPerS:          float64(r.BytesToDevice) / r.Elapsed.Seconds() / 1e9,
		DeviceWaitFraction: r.DeviceWaitFraction(),
		Workers:            r.Workers,
		Slabs:              r.Slabs,
		DeviceBuffers:      r.DeviceBuffers,
		HostBytes:          r.HostBytes,
		DeviceBytes:        r.DeviceBytes,
		Pinned:             r.Pinned,
		PageableReason:     r.PageableWhy,
		StagingBytes:       r.StagingBytes,
		Checksum:           r.Checksum,
		Stages:             []stageRow{},
		Epochs:             []epochRow{},
	}
	if slices.Equal(out.classes, []string{""}) { // a folder without sub-folders
		out.classes = nil
	}
	out.Classes = len(out.classes)
	if r.Samples > 0 {
		out.Limit = r.Limit(r.Elapsed)
	}
	if _, ok := dataset.As[dataset.Encoded](in.Dataset); ok {
		out.JPEGDecoder = imaging.JPEGDecoder()
		out.DecodeDevice, out.DecodeReason = r.DecodeDevice, r.DecodeWhy
	}
	for _, s := range r.Stages {
		times := 1
		if s.Where == "worker" {
			times = r.Workers
		}
		out.Stages = append(out.Stages, stageRow{
			Stage: s.Name, Where: s.Where, Seconds: s.Time.Seconds(),
			SecondsPerSample: s.Time.Seconds() / float64(max(r.Samples, 1)),
			// Small copies are timed now and then only, which may give too much.
			BusyFraction: min(1, s.Time.Seconds()/r.Elapsed.Seconds()/float64(times)),
		})
	}
	for _, e := range r.Epochs {
		out.Epochs = append(out.Epochs, epochRow{e.Samples, e.Elapsed.Seconds(),
			float64(e.Samples) / e.Elapsed.Seconds(), e.DeviceFreeBytes, e.HostBytes, e.HeapBytes})
	}
	return out
}

// few lists the first of names, which may be any text.
func few(names []string) string {
	const most, longest = 6, 24
	more := ""
	if len(names) > most {
		names, more = names[:most-1], ", …"
	}
	short := make([]string, len(names))
	for i, name := range names {
		if name == "" { // of photos
			short[i] = "(outside of sub-folders)"
			continue
		}
		if short[i] = fmt.Sprintf("%.*s", longest, name); short[i] != name || strings.ContainsFunc(name, unprintable) {
			short[i] = fmt.Sprintf("%.*q", longest, name)
		}
	}
	return strings.Join(short, ", ") + more
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// stageNames says in words what a stage is.
var stageNames = map[string]string{
	"read":             "read files",
	"decode":           "decode",
	"resize":           "resize",
	"idle":             "idle (nothing to fill)",
	"h2d":              "copy to device",
	"decode on device": "decode on device",
	"transform":        "transform on device",
}

// decoder says what decodes JPEGs.
func (o *feedOutput) decoder() string {
	if o.DecodeDevice {
		return "the device; what it does not take by " + o.JPEGDecoder
	}
	return o.JPEGDecoder
}

func (o *feedOutput) print(w io.Writer) {
	shape := strings.Trim(strings.ReplaceAll(fmt.Sprint(o.BatchShape), " ", "x"), "[]")
	fmt.Fprintf(w, "%s  %s\n", o.Device, o.DeviceName)
	fmt.Fprintf(w, "%s in %s of %s %s, %s\n", units.Count(o.Samples, "sample"),
		units.Count(o.Batches, "batch"), shape, o.DType, units.Seconds(o.Seconds))
	if o.BatchReason != "" {
		fmt.Fprintf(w, "batches of %d: %s\n", o.Batch, o.BatchReason)
	}
	if n := len(o.classes); n > 0 {
		fmt.Fprintf(w, "%s: %s\n", units.Count(n, "class"), few(o.classes))
	}
	for _, t := range o.Targets {
		fmt.Fprintln(w, t)
	}
	if o.Samples == 0 {
		return // there is no speed to speak of
	}
	fmt.Fprintln(w)
	fmt.Fprintf(w, "  %.0f samples/s, %.3f GB/s to the device; it waited for data %s of the time\n",
		o.SamplesPerS, o.H2DGBPerS, units.Percent(o.DeviceWaitFraction))
	if o.Limit != "" {
		fmt.Fprintf(w, "  held up by %s\n", limitNames[o.Limit])
	}
	if n := o.FailedSamples; n > 0 {
		fmt.Fprintf(w, "  %s could not be read: %d skipped, %d replaced\n", units.Count(n, "sample"), n-o.ReplacedSamples, o.ReplacedSamples)
	}
	memory := "pinned"
	if !o.Pinned {
		memory = "pageable: " + o.PageableReason
	}
	if o.StagingBytes > 0 {
		memory += ", copied through " + units.Bytes(o.StagingBytes) + " of pinned memory"
	}
	workers := units.Count(o.Workers, "worker")
	fmt.Fprintf(w, "  %s; %s of host memory, %s (%s); %s, %s\n",
		workers, units.Count(o.Slabs, "slab"), units.Bytes(o.HostBytes), memory,
		units.Count(o.DeviceBuffers, "device buffer"), units.Bytes(o.DeviceBytes))
	if o.JPEGDecoder != "" {
		fmt.Fprintf(w, "  JPEG by %s\n", o.decoder())
	}
	if o.Checksum != "" {
		fmt.Fprintf(w, "  checksum %s\n", o.Checksum)
	}

	t := texttable.New("STAGE", "WHERE", ">TOTAL", ">PER SAMPLE", ">BUSY")
	for _, s := range o.Stages {
		if s.Seconds == 0 {
			continue // no stage of this run
		}
		where := s.Where
		if where == "worker" {
			where = workers
		}
		t.Add(stageNames[s.Stage], where, units.Seconds(s.Seconds), units.Seconds(s.SecondsPerSample), units.Percent(s.BusyFraction))
	}
	fmt.Fprintln(w)
	t.Write(w)
}
