package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/pinion-gpu/pinion/bench/internal/harness"
	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/internal/measure"
	"github.com/pinion-gpu/pinion/internal/units"
)

// libturbojpeg is who decodes and does nothing else.
const libturbojpeg = "libturbojpeg"

// decoders are threads that decode photos from memory, each into a buffer of
// its own that is used again. That is tjDecompress2 and the reading of headers.
type decoders struct {
	files   [][]byte
	threads []decoder
	at      int // file that the next repeat begins with
}

type decoder struct {
	*imaging.Decoder
	image  imaging.Image
	pixels []byte // of a sample, where samples are made
}

// newDecoders makes as many decoders as threads, until m is closed.
func (f *folder) newDecoders(m *harness.Memory, threads int) *decoders {
	d := &decoders{files: f.files, threads: make([]decoder, threads)}
	for i := range d.threads {
		d.threads[i].Decoder = imaging.NewDecoder(imaging.Options{})
		m.Later(func() error { d.threads[i].Close(); return nil })
	}
	return d
}

// rate has each thread work on n files, others each time, and returns the files
// a second of all.
func (d *decoders) rate(ctx context.Context, n int, work func(d *decoder, file []byte) error) (float64, error) {
	errs := make([]error, len(d.threads))
	first := d.at
	d.at += n * len(d.threads)
	start := time.Now()
	var all sync.WaitGroup
	for t := range d.threads {
		all.Go(func() {
			for i := range n {
				if errs[t] = ctx.Err(); errs[t] != nil {
					return
				}
				at := (first + t*n + i) % len(d.files)
				if errs[t] = work(&d.threads[t], d.files[at]); errs[t] != nil {
					return
				}
			}
		})
	}
	all.Wait()
	return float64(n*len(d.threads)) / measure.Since(start, time.Second), errors.Join(errs...)
}

// checkTurbo fails where something else decodes JPEGs.
func checkTurbo() error {
	if d := imaging.JPEGDecoder(); !strings.HasPrefix(d, libturbojpeg) {
		return fmt.Errorf("%w: the decoder is %s", errors.ErrUnsupported, d)
	}
	return nil
}

// bare decodes and does nothing else.
func bare(d *decoder, file []byte) error { return d.Decode(context.Background(), &d.image, file) }

// bareRow is the row of decoding photos with so many threads at once.
func (b *bench) bareRow(ctx context.Context, m *harness.Memory, f *folder, name string, threads int) *sample {
	d := f.newDecoders(m, threads)
	return &sample{Sample: measure.Sample{
		Row:   measure.Row{Name: name, By: libturbojpeg + ", " + units.Count(threads, "thread"), Unit: "images/s"},
		Check: checkTurbo,
		Run:   func() (float64, error) { return d.rate(ctx, b.decodes, bare) },
	}}
}
