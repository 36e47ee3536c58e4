package provenance

import (
	"encoding/json"
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
	if r.Version == "" || r.Commit == "" || r.CPUs < 1 || !strings.Contains(r.Platform, "/") {
		t.Errorf("%+v", r)
	}
	data, err := json.Marshal(r)
	if err != nil || strings.Contains(string(data), "device") {
		t.Errorf("%s, %v: a device that was not used", data, err)
	}
	if r = r.On("cuda:0", "Fast GPU"); r.Device != "cuda:0" || r.DeviceName != "Fast GPU" {
		t.Errorf("%+v", r)
	}
}

// A commit that the build was told is the commit.
func TestCommit(t *testing.T) {
	was := commit
	t.Cleanup(func() { commit = was })
	commit = "0123 with changes"
	if got := Now().Commit; got != commit {
		t.Errorf("%q", got)
	}
}
