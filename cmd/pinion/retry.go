package main

import (
	"sync"
	"time"

	"github.com/pinion-gpu/pinion/dataset/shard"
)

// retryPace is how often retries are told of: many requests may fail at once.
const retryPace = 10 * time.Second

// tellRetries says now and then that a server fails or stalls, since a stalled one
// is given up only after minutes.
func tellRetries(line *progress) func(shard.Retry) {
	var mu sync.Mutex
	var told time.Time
	return func(r shard.Retry) {
		mu.Lock()
		defer mu.Unlock()
		if !told.IsZero() && time.Since(told) < retryPace {
			return
		}
		told = time.Now()
		line.message("%s: %v; trying again, %d of %d", r.URL, r.Err, r.Try+1, r.Tries)
	}
}
