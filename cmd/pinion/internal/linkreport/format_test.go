package linkreport

import (
	"testing"
	"time"
)

func TestFormat(t *testing.T) {
	for want, got := range map[string]string{
		"55.3": gb(55.327e9), "101": gb(101.42e9), "0.12": gb(0.12e9), "10.0": gb(9.996e9),
		"8.47 µs": durationText(8467), "519 ms": durationText(519097493), "1.00 s": durationText(999999999),
		"500 ns": durationText(500), "90.0 s": durationText(90 * time.Second), "1.00 ns": durationText(1),
		"1 GiB": bytesText(1 << 30), "64 KiB": bytesText(64 << 10), "1.5 MiB": bytesText(3 << 19), "0 B": bytesText(-1), "512 B": bytesText(512),
		"1G": bytesShort(1 << 30), "256K": bytesShort(256 << 10), "512": bytesShort(512),
		"95 %": percent(0.947), "6.9": times(6.94), "10": times(9.96), "11": times(11.1),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
