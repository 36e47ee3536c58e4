package staging

import "testing"

// While a task waits whose caller has no ring, no caller takes the last free
// one: those who copy in a row would never let helpers have it.
func TestLastRingIsForHelpers(t *testing.T) {
	s := New(Options{Copiers: 3})
	free := func(n int) {
		for s.rings = nil; len(s.rings) < n; {
			s.rings = append(s.rings, &ring{})
		}
	}
	newTask := func(progress func(done, total int64)) *task {
		return &task{total: 2, copiers: 1, least: 1, most: 1, left: 2, progress: progress}
	}
	gets := func(want bool) {
		t.Helper()
		had := len(s.rings)
		if got := s.add(newTask(nil), 1) != nil; got != want {
			t.Errorf("a caller gets a ring: %t, with %d free and %d tasks without one", got, had, s.lone)
		}
	}
	free(1)
	gets(true)  // nobody waits
	gets(false) // there is none
	free(2)
	gets(true)
	gets(false) // it is the last one
	if lone, first := newTask(func(int64, int64) {}), len(s.tasks); s.add(lone, 1) != nil || s.tasks[first] != lone {
		t.Error("a caller with progress got a ring, or its task is not on the list")
	}
	gets(false)
	for len(s.tasks) > 0 {
		s.take()
	}
	if s.lone != 0 {
		t.Errorf("%d lone tasks of none", s.lone)
	}
	gets(true)
	// A task that is given up does not wait any more.
	given := newTask(func(int64, int64) {})
	given.done, given.tick = make(chan struct{}, 1), make(chan struct{}, 1)
	s.add(given, 1)
	s.abandon(given, ErrClosed)
	free(1)
	gets(true)
}
