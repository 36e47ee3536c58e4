package pipeline

import (
	"sync"
	"time"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/cli"
	"github.com/pinion-gpu/pinion/dataset/shard"
)

// retryPace is how often retries are reported: many requests may fail at once.
const retryPace = 10 * time.Second

// retries reports now and then that a server fails or stalls: it takes minutes
// until the last try has failed. It is safe for concurrent use.
type retries struct {
	line *cli.Progress
	mu   sync.Mutex
	last time.Time // report
}

func (n *retries) report(r shard.Retry) {
	n.mu.Lock()
	due := n.last.IsZero() || time.Since(n.last) >= retryPace
	if due {
		n.last = time.Now()
	}
	n.mu.Unlock()
	if due {
		n.line.Message("%s: %v; trying again, %d of %d", r.URL, r.Err, r.Try+1, r.Tries)
	}
}
