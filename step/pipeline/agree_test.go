package pipeline_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	pinionerrs "github.com/pinion-gpu/pinion/internal/errs"
	"github.com/pinion-gpu/pinion/internal/models"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/parallel/local"
	"github.com/pinion-gpu/pinion/step/host"
	"github.com/pinion-gpu/pinion/step/pipeline"
	"github.com/pinion-gpu/pinion/step/train"
)

// Ranks that do not have the same step, or cut it elsewhere, hear of it when they open it.
func TestAgree(t *testing.T) {
	for name, of := range map[string]func(rank int) (layers, micro int, scarce bool){
		"layers": func(rank int) (int, int, bool) { return 4 - rank, 2, false },
		"micro":  func(rank int) (int, int, bool) { return 4, 2 + rank, false },
		"budget": func(rank int) (int, int, bool) { return 4, 4, rank == 1 },
	} {
		t.Run(name, func(t *testing.T) {
			var devices []device.Device
			for range 2 {
				dev := testkit.Must(device.Open("host:64MiB"))(t)
				defer dev.Close()
				devices = append(devices, dev)
			}
			errs := make([]error, 2)
			var all sync.WaitGroup
			for rank, c := range testkit.Must(local.New(devices...))(t) {
				all.Go(func() {
					errs[rank] = func() error {
						layers, micro, scarce := of(rank)
						m, err := models.GPT{Layers: layers, Width: 16, Heads: 2, Batch: 1, Length: 4, Vocabulary: 8, Optimizer: models.Adam}.Model()
						if err != nil {
							return err
						}
						exec, err := host.Open(c.Device())
						if err != nil {
							return err
						}
						defer exec.Close()
						o := pipeline.Options{Micro: micro}
						for err := pinionerrs.ErrTooLarge; scarce && errors.Is(err, pinionerrs.ErrTooLarge); { // the least that there is a cut for
							o.Budget += 1 << 10
							_, err = pipeline.Plan(m.Training(), 2, o)
						}
						r, err := pipeline.Open(m.Training(), exec, c, o)
						if err == nil {
							err = errors.Join(errors.New("it was opened"), r.Close())
						}
						return err
					}()
				})
			}
			all.Wait()
			for rank, err := range errs {
				if !errors.Is(err, pipeline.ErrArgument) || !strings.Contains(err.Error(), "rank 1 has another step than rank 0") {
					t.Errorf("rank %d: %v", rank, err)
				}
			}
		})
	}
}

// What cannot be right is refused, whatever it is.
func TestOdd(t *testing.T) {
	_, err := pipeline.Plan(train.Step{}, 2, pipeline.Options{Micro: 2})
	testkit.WantError(t, "nothing", err, pipeline.ErrArgument, "without a graph")
	n := gpt(t)
	odd := n.Step
	odd.State = append([]train.State{{}}, odd.State...)
	_, err = pipeline.Plan(odd, 2, pipeline.Options{Micro: 2})
	testkit.WantError(t, "a state that is nothing", err, pipeline.ErrArgument, "is no parameter of the graph")
	odd = n.Step
	odd.SplitOver = 2
	_, err = pipeline.Plan(odd, 2, pipeline.Options{Micro: 2})
	testkit.WantError(t, "a split step", err, pipeline.ErrArgument, "split over 2 ranks")
	if got := pipeline.Kind(7).String(); got != "kind(7)" {
		t.Error(got)
	}
}
