package trace

import (
	"testing"
	"time"
)

func TestClock(t *testing.T) {
	var c clock
	for _, step := range []struct {
		text string
		want time.Duration
	}{
		{"23:00:00", 0},
		{"22:59:59.5", -500 * time.Millisecond}, // threads log out of order
		{"01:00:00.25", 2*time.Hour + 250*time.Millisecond},
		{"13:30:00", 14*time.Hour + 30*time.Minute},
		{"nonsense", 14*time.Hour + 30*time.Minute},
		{"13:60:00", 14*time.Hour + 30*time.Minute},
		{"23:59:59:999999", 25*time.Hour - time.Microsecond},
		{"00:30:00", 25*time.Hour + 30*time.Minute},
	} {
		if got := c.since([]byte(step.text)); got != step.want {
			t.Errorf("%s: %v, want %v", step.text, got, step.want)
		}
	}
}
