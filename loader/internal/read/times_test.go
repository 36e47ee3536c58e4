package read

import (
	"sync"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/dataset"
)

// No time that workers count is lost.
func TestTimes(t *testing.T) {
	var c Times
	var all sync.WaitGroup
	const workers, tasks = 8, 100
	for range workers {
		all.Go(func() {
			for range tasks {
				c.add(&dataset.Timing{Read: 1, Decode: 2, Resize: 3})
				c.waited(4)
			}
		})
	}
	all.Wait()
	const n = time.Duration(workers * tasks)
	if work, idle := c.Spent(); work != (dataset.Timing{Read: n, Decode: 2 * n, Resize: 3 * n}) || idle != 4*n {
		t.Errorf("%v and idle %v, of %d tasks", work, idle, n)
	}
}

// What counting a task takes, four updates: run it with -cpu 8.
func BenchmarkTimes(b *testing.B) {
	var c Times
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			c.add(&dataset.Timing{Read: 1, Decode: 2, Resize: 3})
			c.waited(4)
		}
	})
}
