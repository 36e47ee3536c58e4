package loader

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

// Every sample of every job is taken once, however many workers come and go to
// sleep, and those of one worker are in the order in which jobs were put.
func TestDesk(t *testing.T) {
	for _, workers := range []int{1, 2, 7, 40} {
		d := newDesk()
		var all sync.WaitGroup
		taken := make([][]task, workers)
		for w := range workers {
			all.Go(func() {
				own := newNap()
				rng := rand.New(rand.NewPCG(uint64(w), 2))
				for {
					got, ok := d.take(1+rng.IntN(5), own)
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
			j := &job{n: n, indexes: make([]int, 1+rng.IntN(most))}
			want += len(j.indexes)
			d.put(j)
			if rng.IntN(10) == 0 {
				time.Sleep(time.Duration(rng.IntN(300)) * time.Microsecond) // all fall asleep
			}
		}
		d.close()
		all.Wait()
		seen := map[[2]int]bool{}
		for _, list := range taken {
			if !slices.IsSortedFunc(list, func(a, b task) int { return 100*(a.job.n-b.job.n) + a.from - b.from }) {
				t.Errorf("%d workers: one took later samples first", workers)
			}
			for _, got := range list {
				for slot := got.from; slot < got.to; slot++ {
					if seen[[2]int{got.job.n, slot}] || slot >= len(got.job.indexes) {
						t.Errorf("%d workers: slot %d of job %d is taken twice, or there is none", workers, slot, got.job.n)
					}
					seen[[2]int{got.job.n, slot}] = true
				}
			}
		}
		if len(seen) != want {
			t.Errorf("%d workers took %d samples of %d", workers, len(seen), want)
		}
	}
}

// A job that keeps one worker busy wakes the others.
func TestDeskWakesAll(t *testing.T) {
	const workers = 9
	d := newDesk()
	var all sync.WaitGroup
	busy := make(chan struct{}, workers)
	gate := make(chan struct{})
	for range workers {
		all.Go(func() {
			own := newNap()
			for {
				if _, ok := d.take(1, own); !ok {
					return
				}
				busy <- struct{}{}
				<-gate
			}
		})
	}
	for asleep := 0; asleep < workers; {
		runtime.Gosched()
		d.mu.Lock()
		asleep = len(d.sleepers)
		d.mu.Unlock()
	}
	d.put(&job{indexes: make([]int, workers)})
	for range workers {
		select {
		case <-busy:
		case <-time.After(time.Minute):
			t.Fatal("a worker sleeps while there are samples")
		}
	}
	close(gate)
	d.close()
	all.Wait()
}

// A worker that waits when the desk is closed is sent home, and so is the next
// that comes.
func TestDeskClose(t *testing.T) {
	d := newDesk()
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			if _, ok := d.take(1, newNap()); ok {
				t.Error("a sample of no job")
			}
		})
	}
	time.Sleep(time.Millisecond)
	d.close()
	all.Wait()
	if _, ok := d.take(1, newNap()); ok {
		t.Error("a sample of no job")
	}
}
