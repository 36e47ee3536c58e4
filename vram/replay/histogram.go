package replay

import (
	"math/bits"
	"time"
)

// histogram counts times in buckets of fixed number: one for each nanosecond
// below 64, and 32 for each power of two from there. The middle of a bucket is
// within 1/64 of all that is in it. (The log-linear buckets of HdrHistogram.)
type histogram struct {
	buckets [exact + (63-exactBits)*perOctave]int64
	count   int64
}

const (
	exactBits = 6
	exact     = 1 << exactBits
	perOctave = exact / 2
)

func bucketOf(ns int64) int {
	if ns < exact {
		return int(max(ns, 0))
	}
	shift := bits.Len64(uint64(ns)) - exactBits // the top six bits tell
	return exact + (shift-1)*perOctave + int(ns>>shift) - perOctave
}

// middle is the time that a bucket stands for.
func middle(bucket int) int64 {
	if bucket < exact {
		return int64(bucket)
	}
	shift := (bucket-exact)/perOctave + 1
	low := int64((bucket-exact)%perOctave+perOctave) << shift
	return low + int64(1)<<shift/2
}

func (h *histogram) add(d time.Duration) {
	h.buckets[bucketOf(int64(d))]++
	h.count++
}

// quantile returns the time that a share q, 0 to 1, of the counted times does not
// exceed, or 0 if none was counted.
func (h *histogram) quantile(q float64) time.Duration {
	rank := max(int64(q*float64(h.count)+0.5), 1)
	for bucket, n := range h.buckets {
		if rank -= n; rank <= 0 && n > 0 {
			return time.Duration(middle(bucket))
		}
	}
	return 0
}
