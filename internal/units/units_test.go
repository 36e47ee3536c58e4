package units

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/internal/errs"
)

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1: "1 B", 1000: "1000 B", 1023: "1023 B", 1024: "1 KiB", 1536: "1.50 KiB",
		256 << 10: "256 KiB", 1<<20 - 1: "1.00 MiB", 1000 << 10: "1000 KiB", 1 << 30: "1 GiB", 1<<30 + 1: "1.00 GiB",
		3 << 29: "1.50 GiB", 12345 << 20: "12.1 GiB", 140 << 30: "140 GiB", 150_754_820_096: "140 GiB",
		math.MaxInt64: "8.00 EiB", -1536: "-1.50 KiB", -5: "-5 B", math.MinInt64: "-8 EiB",
	} {
		if got := Bytes(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
	for n, want := range map[int64]string{512: "512", 256 << 10: "256K", 1 << 30: "1G", 3 << 29: "1.50G"} {
		if got := BytesShort(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestBytesUp(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1 KiB", 1025: "1.01 KiB", 3 << 29: "1.50 GiB", 3<<29 + 1: "1.51 GiB",
		10<<20 - 1: "10.0 MiB", 10<<20 - 20000: "9.99 MiB", 12345 << 20: "12.1 GiB", 140<<30 + 1: "141 GiB", 1023<<10 + 1: "1024 KiB",
	} {
		text := BytesUp(n)
		if text != want {
			t.Errorf("%d: %q, want %q", n, text, want)
		}
		if back, err := ParseBytes(text); n != 0 && (err != nil || back < n) {
			t.Errorf("%q, of %d, is read as %d, %v", text, n, back, err)
		}
	}
}

func TestDecimalBytes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 400e6: "400 MB", 1500: "1.5 kB"} {
		if got := DecimalBytes(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestExactBytes(t *testing.T) {
	for n, want := range map[int64]string{0: "0B", 1: "1B", 1000: "1000B", 1 << 10: "1KiB", 3 << 29: "1536MiB", 1<<40 + 1<<20: "1048577MiB", 4 << 60 >> 1: "2EiB"} {
		text := ExactBytes(n)
		if text != want {
			t.Errorf("%d: %q, want %q", n, text, want)
		}
		if back, err := ParseBytes(text); n != 0 && (err != nil || back != n) {
			t.Errorf("%q is read as %d, %v; want %d", text, back, err, n)
		}
	}
}

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]int64{"1": 1, "64MiB": 64 << 20, "1.5 GiB": 3 << 29, "10GB": 1e10, "4g": 4e9, "1Gi": 1 << 30} {
		if n, err := ParseBytes(text); err != nil || n != want {
			t.Errorf("%q: %d, %v; want %d", text, n, err, want)
		}
	}
	for _, text := range []string{"", "0", "GiB", "-1", "1QiB", "1e9x", "9EiB", "99999999999999999999", "NaN", "Inf"} {
		if n, err := ParseBytes(text); !errors.Is(err, errs.ErrArgument) {
			t.Errorf("%q: %d, %v", text, n, err)
		}
	}
}

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 ns", 1: "1 ns", 999: "999 ns", 1000: "1.00 µs", 12345: "12.3 µs", 999_499: "999 µs", 999_500: "1.00 ms",
		123456789: "123 ms", 1500 * time.Millisecond: "1.50 s", 90 * time.Minute: "5400 s", -2 * time.Millisecond: "-2.00 ms",
	} {
		if got := Duration(d); got != want {
			t.Errorf("%d: %q, want %q", d, got, want)
		}
	}
	if got := Seconds(0.0123); got != "12.3 ms" {
		t.Error(got)
	}
}

func TestNumbers(t *testing.T) {
	for v, want := range map[float64]string{0: "0.00", 0.123: "0.12", 9.994: "9.99", 9.996: "10.0", 99.94: "99.9", 99.96: "100", 12345.6: "12346", -12.34: "-12.3"} {
		if got := Digits(v); got != want {
			t.Errorf("%g: %q, want %q", v, got, want)
		}
	}
	for got, want := range map[string]string{
		Rate(50.3e9): "50.3 GB/s", Percent(0.1234): "12.3 %", Grouped(1234567): "1,234,567",
		Count(1, "batch"): "1 batch", Count(0, "batch"): "0 batches", Count(int64(2), "copy"): "2 copies",
		Count(2, "way"): "2 ways", Count(2, "epoch"): "2 epochs", Count(3, "class"): "3 classes", Count(3, "index"): "3 indexes",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
