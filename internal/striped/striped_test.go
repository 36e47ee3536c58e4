package striped

import (
	"sync"
	"sync/atomic"
	"testing"
)

type counts struct{ a, b atomic.Int64 }

// Nothing that goroutines add is lost, and they do not all add in one place.
func TestSum(t *testing.T) {
	var o Of[counts]
	var all sync.WaitGroup
	const goroutines, each = 64, 1000
	for range goroutines {
		all.Go(func() {
			for range each {
				c := o.Near()
				c.a.Add(1)
				c.b.Add(2)
			}
		})
	}
	all.Wait()
	var a, b int64
	used := 0
	for c := range o.All() {
		a, b = a+c.a.Load(), b+c.b.Load()
		if c.a.Load() > 0 {
			used++
		}
	}
	if a != goroutines*each || b != 2*a {
		t.Errorf("counted %d and %d, want %d and twice that", a, b, goroutines*each)
	}
	if used < 2 {
		t.Errorf("%d goroutines shared %d places", goroutines, used)
	}
}

// What one update takes, by goroutines that count the same at once: run it with
// -cpu 8.
func BenchmarkAdd(b *testing.B) {
	b.Run("striped", func(b *testing.B) {
		var o Of[counts]
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				o.Near().a.Add(1)
			}
		})
	})
	b.Run("shared", func(b *testing.B) {
		var c counts
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				c.a.Add(1)
			}
		})
	})
}
