package read

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/loader/internal/slab"
)

// Every sample of every job is taken once, however many workers come and go to
// sleep, and those of one worker are in the order in which jobs were put.
func TestQueue(t *testing.T) {
	for _, workers := range []int{1, 2, 7, 40} {
		q := newQueue(nil)
		var all sync.WaitGroup
		taken := make([][]task, workers)
		for w := range workers {
			all.Go(func() {
				own := newSleeper()
				rng := rand.New(rand.NewPCG(uint64(w), 2))
				for {
					got, ok := q.take(1+rng.IntN(5), own)
					if !ok {
						return
					}
					taken[w] = append(taken[w], got)
					if rng.IntN(4) == 0 {
						time.Sleep(time.Duration(rng.IntN(100)) * time.Microsecond)
					}
				}
			})
		}
		const jobs, most = 400, 23
		rng := rand.New(rand.NewPCG(9, uint64(workers)))
		want := 0
		for n := range jobs {
			j := &Job{N: n, Contents: slab.Contents{Indexes: make([]int, 1+rng.IntN(most))}}
			want += len(j.Indexes)
			q.put(task{job: j, to: len(j.Indexes)})
			if rng.IntN(10) == 0 {
				time.Sleep(time.Duration(rng.IntN(300)) * time.Microsecond) // all fall asleep
			}
		}
		q.close()
		all.Wait()
		seen := map[[2]int]bool{}
		for _, list := range taken {
			if !slices.IsSortedFunc(list, func(a, b task) int { return 100*(a.job.N-b.job.N) + a.from - b.from }) {
				t.Errorf("%d workers: one took later samples first", workers)
			}
			for _, got := range list {
				for slot := got.from; slot < got.to; slot++ {
					if seen[[2]int{got.job.N, slot}] || slot >= len(got.job.Indexes) {
						t.Errorf("%d workers: slot %d of job %d is taken twice, or there is none", workers, slot, got.job.N)
					}
					seen[[2]int{got.job.N, slot}] = true
				}
			}
		}
		if len(seen) != want {
			t.Errorf("%d workers took %d samples of %d", workers, len(seen), want)
		}
	}
}

// A job that keeps one worker busy wakes the others.
func TestQueueWakesAll(t *testing.T) {
	const workers = 9
	q := newQueue(nil)
	var all sync.WaitGroup
	busy := make(chan struct{}, workers)
	gate := make(chan struct{})
	for range workers {
		all.Go(func() {
			own := newSleeper()
			for {
				if _, ok := q.take(1, own); !ok {
					return
				}
				busy <- struct{}{}
				<-gate
			}
		})
	}
	for asleep := 0; asleep < workers; {
		runtime.Gosched()
		q.mu.Lock()
		asleep = len(q.sleepers)
		q.mu.Unlock()
	}
	q.put(task{job: &Job{}, to: workers})
	for range workers {
		select {
		case <-busy:
		case <-time.After(time.Minute):
			t.Fatal("a worker sleeps while there are samples")
		}
	}
	close(gate)
	q.close()
	all.Wait()
}

// A worker that waits when the queue is closed ends, and so does the next that
// comes.
func TestQueueClose(t *testing.T) {
	q := newQueue(nil)
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			if _, ok := q.take(1, newSleeper()); ok {
				t.Error("a sample of no job")
			}
		})
	}
	time.Sleep(time.Millisecond)
	q.close()
	all.Wait()
	if _, ok := q.take(1, newSleeper()); ok {
		t.Error("a sample of no job")
	}
}
