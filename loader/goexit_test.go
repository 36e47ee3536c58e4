package loader_test

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/loader"
)

// A dataset that ends its goroutine spoils one sample each time, whoever reads
// it: a worker, the scheduler, a guard, or what reads replacements.
func TestGoexitWhileReading(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	for _, c := range []struct {
		name   string
		o      loader.Options
		target bool
	}{
		{"one worker", loader.Options{Batch: 4, Workers: 1}, false},
		{"quick samples", loader.Options{Batch: 2, Workers: 2}, false},
		{"any order", loader.Options{Batch: 4, Unordered: true, Workers: 3}, false},
		{"a time limit", loader.Options{Batch: 4, SampleTimeout: testkit.Hang, Workers: 2}, false},
		{"a target", loader.Options{Batch: 4, Workers: 2}, true},
	} {
		const n = 1200
		bad := []int{0, 1, 7, 600, 601, 1199}
		ends := func(i int) {
			if slices.Contains(bad, i) {
				runtime.Goexit()
			}
		}
		ds := table(n, dtype.U8, 3)
		if c.target {
			target := table(n, dtype.U8, 2)
			target.before = ends
			c.o.Targets = []dataset.Dataset{target}
		} else {
			ds.before = ends
		}
		var left []int
		c.o.Decide = func(err *loader.SampleError) loader.ErrorPolicy {
			if left = append(left, err.Index); !strings.Contains(err.Error(), "Goexit") {
				t.Errorf("%s: %v", c.name, err)
			}
			return loader.Skip
		}
		list, err := run(t, dev, ds, c.o)
		testkit.OK(t, err)
		samples := 0
		for _, g := range list {
			samples += len(g.indexes)
		}
		if slices.Sort(left); samples != n-len(bad) || !slices.Equal(left, bad) {
			t.Errorf("%s: %d samples of %d, without %v", c.name, samples, n, left)
		}
		if ds.readers.Load() != 0 {
			t.Errorf("%s: %d readers are still open", c.name, ds.readers.Load())
		}

		c.o.Decide, c.o.OnError, c.o.Unordered = nil, loader.Replace, false
		list, err = run(t, dev, ds, c.o)
		testkit.OK(t, err)
		for _, g := range list {
			for _, i := range g.indexes {
				if slices.Contains(bad, i) {
					t.Errorf("%s: sample %d is there", c.name, i)
				}
			}
		}
	}
}

// exits is an order that ends the goroutine that asks for batch 2.
type exits struct{}

func (exits) Len() int { return 5 }

func (exits) AppendAt(dst []int, epoch, k int) []int {
	if epoch == 3 && k == 2 {
		runtime.Goexit()
	}
	return append(dst, k)
}

// Other code of the caller's that ends its goroutine ends the loader with an
// error.
func TestGoexitElsewhere(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	ds := table(5, dtype.U8, 3)
	list, err := run(t, dev, ds, loader.Options{Batches: exits{}, Batch: 1, Epochs: 9})
	if len(list) != 17 || err == nil || !strings.Contains(err.Error(), "Goexit") {
		t.Errorf("a sampler: %d batches, %v", len(list), err)
	}

	ds.fail = map[int]bool{3: true}
	list, err = run(t, dev, ds, loader.Options{Batch: 1, Decide: func(*loader.SampleError) loader.ErrorPolicy {
		runtime.Goexit()
		return loader.Skip
	}})
	if len(list) != 3 || err == nil || !strings.Contains(err.Error(), "Goexit") {
		t.Errorf("Decide: %d batches, %v", len(list), err)
	}
}

// Every sample ends its goroutine, and workers are as many as before.
func TestGoexitAlways(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	ds := table(3000, dtype.U8, 3)
	ds.before = func(int) { runtime.Goexit() }
	before := runtime.NumGoroutine()
	most := 0
	_, err := run(t, dev, ds, loader.Options{Batch: 100, Workers: 4, Decide: func(*loader.SampleError) loader.ErrorPolicy {
		most = max(most, runtime.NumGoroutine()-before)
		return loader.Skip
	}})
	if !errors.Is(err, loader.ErrNoSamples) {
		t.Errorf("%v, want %v", err, loader.ErrNoSamples)
	}
	if most > 60 {
		t.Errorf("%d goroutines", most)
	}
}
