package linger

import "testing"

func TestUntil(t *testing.T) {
	asked := 0
	Until(func() bool { asked++; return asked == 3 })
	if asked > 3 {
		t.Errorf("asked %d times, ready at the third", asked)
	}
	Until(func() bool { return false }) // comes to an end
	if n := testing.AllocsPerRun(10, func() { Until(func() bool { asked++; return true }) }); n != 0 {
		t.Errorf("%g allocations", n)
	}
}
