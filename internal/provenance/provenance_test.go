package provenance

import (
	"strings"
	"testing"
	"time"
)

func TestNow(t *testing.T) {
	r := Now()
	at, err := time.Parse(time.RFC3339, r.MeasuredAt)
	if age := time.Since(at); err != nil || age < -time.Minute || age > time.Minute {
		t.Errorf("measured at %q", r.MeasuredAt)
	}
	if r.Commit == "" || r.CPUs < 1 || !strings.Contains(r.Platform, "/") || !strings.HasPrefix(r.Version(), r.Commit+" ") {
		t.Errorf("%+v", r)
	}
}
