package page

import (
	"testing"
	"time"
)

func TestFormat(t *testing.T) {
	for want, got := range map[string]string{
		"55.3": Digits(55.327), "101": Digits(101.42), "0.12": Digits(0.12), "10.0": Digits(9.996),
		"8.47 µs": DurationText(8467), "519 ms": DurationText(519097493), "1.00 s": DurationText(999999999),
		"500 ns": DurationText(500), "90.0 s": DurationText(90 * time.Second), "1.00 ns": DurationText(1),
		"1 GiB": Bytes(1 << 30), "64 KiB": Bytes(64 << 10), "1.5 MiB": Bytes(3 << 19), "0 B": Bytes(-1), "512 B": Bytes(512),
		"1G": BytesShort(1 << 30), "256K": BytesShort(256 << 10), "512": BytesShort(512),
		"95 %": Percent(0.947),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
