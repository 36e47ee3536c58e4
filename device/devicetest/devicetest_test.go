package devicetest_test

import (
	"os"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/device/devicetest"
)

func TestOpen(t *testing.T) {
	want := "host"
	if name := os.Getenv("PINION_DEVICE"); name != "" {
		want, _, _ = strings.Cut(name, ":")
	}
	var dev interface{ Synchronize() error }
	t.Run("opens", func(t *testing.T) {
		d := devicetest.Open(t)
		if got := d.Info().Backend; got != want {
			t.Errorf("opened %q, want %q", got, want)
		}
		dev = d
	})
	if dev.Synchronize() == nil {
		t.Error("still open after the test that opened it")
	}
}
