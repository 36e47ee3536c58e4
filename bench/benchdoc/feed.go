package main

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/pinion-gpu/pinion/internal/stats"
	"github.com/pinion-gpu/pinion/internal/units"
)

// feedFile is what `pinion feed --json` prints.
type feedFile struct {
	provenance
	Dataset     string  `json:"dataset"`
	JPEGDecoder string  `json:"jpeg_decoder"`
	BatchShape  []int   `json:"batch_shape"`
	DType       string  `json:"dtype"`
	Samples     int64   `json:"samples"`
	Failed      int64   `json:"failed_samples"`
	SamplesPerS float64 `json:"samples_per_s"`
	GBPerS      float64 `json:"h2d_gb_per_s"`
	Wait        float64 `json:"device_wait_fraction"`
	Workers     int     `json:"workers"`
	Pinned      bool    `json:"pinned"`
	Stages      []struct {
		Stage string  `json:"stage"`
		Busy  float64 `json:"busy_fraction"`
	} `json:"stages"`
	Epochs   []epoch `json:"epochs"`
	Checksum string  `json:"checksum"`
}

type epoch struct {
	Samples         int64   `json:"samples"`
	SamplesPerS     float64 `json:"samples_per_s"`
	DeviceFreeBytes int64   `json:"device_free_bytes"`
	HostBytes       int64   `json:"host_bytes"`
	HeapBytes       int64   `json:"heap_bytes"`
}

// photos reports whether images were fed.
func (f *feedFile) photos() bool { return f.JPEGDecoder != "" }

// rate is the median epoch in samples a second, with the slowest and the
// fastest. The first epoch of several warms up and is left out, as it is with
// the peers.
func (f *feedFile) rate() (median, least, most float64) {
	if len(f.Epochs) < 2 {
		return f.SamplesPerS, f.SamplesPerS, f.SamplesPerS
	}
	var rates []float64
	for _, e := range f.Epochs[1:] {
		rates = append(rates, e.SamplesPerS)
	}
	return stats.Spread(rates)
}

func (f *feedFile) check() error {
	if f.SamplesPerS <= 0 || f.Samples <= 0 || len(f.BatchShape) == 0 {
		return fmt.Errorf("%d samples in batches of shape %v at %g a second are no result", f.Samples, f.BatchShape, f.SamplesPerS)
	}
	return nil
}

// writeFeeds writes all feeds of a run side by side, a row each.
func writeFeeds(w *strings.Builder, feeds []*feedFile) {
	if len(feeds) == 0 {
		return
	}
	var names, origins []string
	for _, f := range feeds {
		names = append(names, f.file)
		if o := f.origin(); !slices.Contains(origins, o) {
			origins = append(origins, o)
		}
	}
	fmt.Fprintf(w, "\n### %s: Pinion, datasets into device memory\n\n", strings.Join(names, ", "))
	fmt.Fprintf(w, "%s. From %s on.\n", strings.Join(origins, "; "), plain(feeds[0].MeasuredAt))

	t := newTable("file", "device", "dataset", "JPEG by", "batch", ">workers", "host memory", ">samples", ">samples/s", ">min", ">max", ">GB/s", ">device waited")
	for _, f := range feeds {
		decoder, _, _ := strings.Cut(f.JPEGDecoder, " (")
		memory := "pageable"
		if f.Pinned {
			memory = "pinned"
		}
		shape := strings.Trim(strings.ReplaceAll(fmt.Sprint(f.BatchShape), " ", "x"), "[]")
		samples := fmt.Sprint(f.Samples)
		if f.Failed > 0 {
			samples += fmt.Sprintf(" (%d left out)", f.Failed)
		}
		median, least, most := f.rate()
		t.add(f.file, plain(f.Device), plain(path.Base(f.Dataset)), plain(decoder), shape+" "+plain(f.DType), fmt.Sprint(f.Workers), memory,
			samples, number(median), number(least), number(most), number(f.GBPerS), units.Percent(f.Wait))
	}
	t.write(w)
	writeStages(w, feeds)
	writeEpochs(w, feeds)
	writeChecksums(w, feeds)
}

// writeStages says how busy each stage was: of its workers' time, or of the
// device's.
func writeStages(w *strings.Builder, feeds []*feedFile) {
	names := []string{"read", "decode", "resize", "idle", "h2d", "transform"}
	t := newTable("busy", ">read", ">decode", ">resize", ">idle", ">copy to device", ">transform on device")
	for _, f := range feeds {
		share := map[string]string{}
		for _, s := range f.Stages {
			share[s.Stage] = units.Percent(s.Busy)
		}
		row := []string{f.file}
		for _, name := range names {
			row = append(row, share[name])
		}
		t.add(row...)
	}
	t.write(w)
}

// writeEpochs compares the first and the last epoch of long runs: rate and
// memory that stay the same are the point of them.
func writeEpochs(w *strings.Builder, feeds []*feedFile) {
	t := newTable("first and last epoch", ">epochs", ">samples/s", ">device memory free", ">slabs", ">Go heap")
	for _, f := range feeds {
		if len(f.Epochs) < 2 {
			continue
		}
		first, last := f.Epochs[0], f.Epochs[len(f.Epochs)-1]
		pair := func(text func(e epoch) string) string { return text(first) + ", " + text(last) }
		t.add(f.file, fmt.Sprint(len(f.Epochs)),
			pair(func(e epoch) string { return number(e.SamplesPerS) }),
			pair(func(e epoch) string { return units.Bytes(e.DeviceFreeBytes) }),
			pair(func(e epoch) string { return units.Bytes(e.HostBytes) }),
			pair(func(e epoch) string { return units.Bytes(e.HeapBytes) }))
	}
	t.write(w)
}

// writeChecksums lists the runs that hashed their batches: equal sums are
// equal bytes in equal order.
func writeChecksums(w *strings.Builder, feeds []*feedFile) {
	t := newTable("batches in order", "checksum")
	for _, f := range feeds {
		if f.Checksum != "" {
			t.add(f.file, plain(f.Checksum))
		}
	}
	t.write(w)
}
