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

// What may be pinned skips nothing and stays unpinned; what may not skips.
func TestNeedsPinned(t *testing.T) {
	dev := devicetest.OpenDiscrete(t, 1<<20) // which fails the test if something stays pinned
	dev.PinLimit = 1 << 20
	for n, want := range map[int64]bool{1: false, 1 << 20: false, 1<<20 + 1: true} {
		var skipped bool
		t.Run("", func(t *testing.T) {
			defer func() { skipped = t.Skipped() }()
			devicetest.NeedsPinned(t, dev, n)
		})
		if skipped != want {
			t.Errorf("%d bytes: skipped %t", n, skipped)
		}
	}
}
