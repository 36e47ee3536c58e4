package loader

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/pinion-gpu/pinion/dataset"
)

// readers is a reader of the dataset and one of each target. It belongs to one
// goroutine.
type readers struct {
	own     dataset.Reader
	encoded dataset.EncodedReader // own, where a device decodes
	targets []dataset.Reader
	frame   dataset.Frame // of the pictures of a visit
	now     atomic.Int32  // the target that is being read, from 1 on; 0: the sample
}

// newReaders makes them, or none.
func (l *Loader) newReaders() (r *readers, err error) {
	r = &readers{}
	defer func() {
		if err != nil {
			r.close()
			r, err = nil, fmt.Errorf("loader: %w: %w", errNoReader, err)
		}
	}()
	defer recoverAs(&err, "in NewReader")
	if l.encoded != nil {
		encoded, err := l.encoded.NewEncodedReader()
		if err != nil {
			return r, err
		}
		r.own, r.encoded = encoded, encoded
	} else {
		own, err := l.ds.NewReader()
		if err != nil {
			return r, err
		}
		r.own = own
	}
	for k := range l.targets {
		target, err := l.targets[k].ds.NewReader()
		if err != nil {
			return r, &targetError{k, err}
		}
		r.targets = append(r.targets, target)
	}
	return r, nil
}

// read reads a sample into the first place, and its targets into those behind.
// A panic of the dataset gets through, one of a target becomes its error.
func (r *readers) read(ctx context.Context, v dataset.Visit, places [][]byte) error {
	r.begin(&v)
	if err := r.own.Read(ctx, v, places[0]); err != nil {
		return err
	}
	return r.readTargets(ctx, v, places[1:])
}

// decode makes a sample of a file that the device does not take after all.
func (r *readers) decode(v dataset.Visit, content, dst []byte) (err error) {
	defer recoverAs(&err, "in the dataset")
	return r.encoded.Decode(v, content, dst)
}

// begin prepares the visit of a sample.
func (r *readers) begin(v *dataset.Visit) {
	r.frame = dataset.Frame{}
	v.Frame = &r.frame
	if len(r.targets) > 0 {
		r.now.Store(0)
	}
}

// readTargets reads the targets of a sample.
func (r *readers) readTargets(ctx context.Context, v dataset.Visit, places [][]byte) error {
	for k, place := range places {
		r.now.Store(int32(k) + 1)
		if err := r.readTarget(ctx, v, k, place); err != nil {
			return &targetError{k, err}
		}
	}
	return nil
}

func (r *readers) readTarget(ctx context.Context, v dataset.Visit, k int, place []byte) (err error) {
	defer recoverAs(&err, "in the dataset")
	return r.targets[k].Read(ctx, v, place)
}

func (r *readers) close() {
	if r.own != nil {
		closeReader(r.own)
	}
	for _, t := range r.targets {
		closeReader(t)
	}
}

func closeReader(reader dataset.Reader) {
	var err error // a reader only reads: nothing can be lost
	defer recoverAs(&err, "in Close of a reader")
	err = reader.Close()
}
