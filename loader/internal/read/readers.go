package read

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/loader/internal/slab"
	"github.com/pinion-gpu/pinion/loader/internal/usercode"
)

// ErrNoReader: a reader could not be made. It is no sample's fault.
var ErrNoReader = errors.New("no reader")

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
func newReaders(s *Source) (r *readers, err error) {
	r = &readers{}
	defer func() {
		if err != nil {
			r.close()
			r, err = nil, fmt.Errorf("%w: %w", ErrNoReader, err)
		}
	}()
	defer usercode.Recover(&err, "in NewReader")
	if s.Encoded != nil {
		encoded, err := s.Encoded.NewEncodedReader()
		if err != nil {
			return r, err
		}
		r.own, r.encoded = encoded, encoded
	} else {
		own, err := s.Layout.Samples.Dataset.NewReader()
		if err != nil {
			return r, err
		}
		r.own = own
	}
	for k := range s.Layout.Targets {
		target, err := s.Layout.Targets[k].Dataset.NewReader()
		if err != nil {
			return r, &slab.TargetError{Target: k, Err: err}
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
func (r *readers) decode(ctx context.Context, v dataset.Visit, content, dst []byte) (err error) {
	defer usercode.Recover(&err, "in the dataset")
	return r.encoded.Decode(ctx, v, content, dst)
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
			return &slab.TargetError{Target: k, Err: err}
		}
	}
	return nil
}

func (r *readers) readTarget(ctx context.Context, v dataset.Visit, k int, place []byte) (err error) {
	defer usercode.Recover(&err, "in the dataset")
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
	defer usercode.Recover(&err, "in Close of a reader")
	err = reader.Close()
}
