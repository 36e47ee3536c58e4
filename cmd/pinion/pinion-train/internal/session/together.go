package session

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/parallel/auto"
)

// ErrStopped says that all ranks have stopped behind the same step, since one was
// interrupted.
var ErrStopped = errors.New("another rank was interrupted")

// together is what ranks do beside their steps.
type together struct {
	*auto.Ranks
	stream  device.Stream
	memory  device.Ptr
	stopped bool // the context of a rank ended
}

// numbers are what ranks tell each other with each step: the loss, and 1 if they were
// interrupted.
const numbers = 2

func newTogether(r *auto.Ranks) (t *together, err error) {
	t = &together{Ranks: r}
	dev := r.Comm.Device()
	if t.stream, err = dev.NewStream(); err != nil {
		return nil, err
	}
	if t.memory, err = dev.Alloc(numbers * 8); err != nil {
		return nil, errors.Join(err, t.stream.Close())
	}
	return t, nil
}

func (t *together) close() error {
	return errors.Join(t.stream.Close(), t.Comm.Device().Free(t.memory))
}

// mean is the mean of all ranks' losses.
func (t *together) mean(loss float64, interrupted bool) (float64, error) {
	b := binary.LittleEndian.AppendUint64(nil, math.Float64bits(loss))
	flag := 0.0
	if interrupted {
		flag = 1
	}
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(flag))
	if err := errors.Join(
		t.stream.CopyH2D(t.memory, b),
		t.Comm.AllReduce(t.stream, dtype.F64, parallel.Avg, parallel.Part{Recv: t.memory, Send: t.memory, N: numbers}),
		t.stream.CopyD2H(b, t.memory),
		t.stream.Synchronize(),
	); err != nil {
		return 0, err
	}
	t.stopped = t.stopped || math.Float64frombits(binary.LittleEndian.Uint64(b[8:])) > 0
	return math.Float64frombits(binary.LittleEndian.Uint64(b)), nil
}

// agree fails on all ranks if they do not train the same: another model, other data, or
// from another place.
func (s *Session) agree(o Options) error {
	if s.ranks == nil {
		return nil
	}
	c, state := s.config, s.loader.State()
	state.Rank, state.World = 0, 0
	for _, x := range []struct {
		what  string
		value any
	}{
		{"the model", c.Spec}, // one by one, since errors shorten values that are long
		{"the batch", c.Batch},
		{"the batches of a step", c.Accumulate},
		{"the seed", c.Seed},
		{"the learning rate", c.LearningRate},
		{"the budget", o.Backend.Budget},
		{"the data", state},
		{"the text", s.digest},
		{"the steps that are done", s.steps},
	} {
		text, err := json.Marshal(x.value)
		if err == nil {
			err = s.ranks.Agree(context.Background(), x.what, string(text))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
