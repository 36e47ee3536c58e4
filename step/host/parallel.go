package host

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/pinion-gpu/pinion/internal/panicked"
)

// workers bounds how many goroutines of this package compute at once, beside those that
// asked for it.
var workers = make(chan struct{}, max(runtime.GOMAXPROCS(0)-1, 0))

// grain is about how many elements are worth another goroutine.
const grain = 16 << 10

// parallel calls f for pieces of 0 to n-1 of the given size, on several goroutines if
// there are enough. What f does for a piece must not depend on other pieces.
func parallel(n, piece int, f func(from, to int)) {
	piece = max(piece, 1)
	pieces := (n + piece - 1) / piece
	if pieces <= 1 {
		if n > 0 {
			f(0, n)
		}
		return
	}
	var next atomic.Int64
	var failed atomic.Pointer[error]
	work := func() {
		defer func() {
			if p := recover(); p != nil {
				err := panicked.Error(p)
				failed.CompareAndSwap(nil, &err)
				next.Store(int64(pieces))
			}
		}()
		for {
			i := int(next.Add(1)) - 1
			if i >= pieces {
				return
			}
			f(i*piece, min((i+1)*piece, n))
		}
	}
	var wg sync.WaitGroup
	for range min(pieces, cap(workers)+1) - 1 {
		select {
		case workers <- struct{}{}:
			wg.Go(func() {
				defer func() { <-workers }()
				work()
			})
			continue
		default:
		}
		break
	}
	work()
	wg.Wait()
	if err := failed.Load(); err != nil {
		panic(*err)
	}
}
