package loader

import (
	"errors"
	"slices"
	"sync"
)

// unread remembers samples that were left out or replaced.
type unread struct {
	mu   sync.Mutex
	list []*SampleError
	seen map[unreadKey]bool
}

// unreadKey tells a sample from its targets.
type unreadKey struct {
	index int
	name  string
}

// add remembers an error of a sample that is not known yet, up to most of
// them; below 0 all.
func (u *unread) add(err error, most int) {
	var sample *SampleError
	if !errors.As(err, &sample) {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	key := unreadKey{sample.Index, sample.Name}
	if u.seen[key] || most >= 0 && len(u.list) >= most {
		return
	}
	if u.seen == nil {
		u.seen = map[unreadKey]bool{}
	}
	u.seen[key] = true
	u.list = append(u.list, sample)
}

// Unread returns the samples that were left out or replaced so far: each once,
// however many epochs it was in, with its first error, in the order in which
// they were found. There are at most [Options].KeepErrors. It may be called at
// any time from any goroutine.
func (l *Loader) Unread() []*SampleError {
	l.unread.mu.Lock()
	defer l.unread.mu.Unlock()
	return slices.Clone(l.unread.list)
}
