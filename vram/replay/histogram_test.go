package replay

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Every time falls into a bucket whose middle is within 1/64 of it, and buckets
// ascend.
func TestHistogramBuckets(t *testing.T) {
	last := -1
	check := func(ns int64) {
		b := bucketOf(ns)
		if m := middle(b); ns < exact && m != ns || math.Abs(float64(m-ns)) > float64(ns)/64 {
			t.Fatalf("%d ns is in bucket %d of %d ns", ns, b, m)
		}
		if b < last {
			t.Fatalf("%d ns is in bucket %d, less than %d", ns, b, last)
		}
		last = b
	}
	for ns := range int64(5000) {
		check(ns)
	}
	for shift := 13; shift < 63; shift++ {
		check(1<<shift - 1)
		check(1 << shift)
		check(1<<shift + 1<<(shift-1))
	}
	check(math.MaxInt64)
	if n := len(histogram{}.buckets); last != n-1 {
		t.Errorf("the longest time is in bucket %d of %d", last, n)
	}
	if b := bucketOf(-1); b != 0 {
		t.Errorf("a negative time is in bucket %d", b)
	}
}

// Quantiles are those of the sorted times, within the precision.
func TestHistogramQuantile(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 3, 10, 99, 100, 101, 5000} {
		var h histogram
		times := make([]float64, n)
		for i := range times {
			ns := int64(math.Exp(rng.Float64() * 20))
			times[i] = float64(ns)
			h.add(time.Duration(ns))
		}
		slices.Sort(times)
		for _, q := range []float64{0, 0.5, 0.99, 1} {
			want := times[max(int(q*float64(n)+0.5), 1)-1]
			if got := float64(h.quantile(q)); math.Abs(got-want) > want/64 {
				t.Errorf("%d times: quantile %g is %g, want %g", n, q, got, want)
			}
		}
	}
	if q := new(histogram).quantile(0.5); q != 0 {
		t.Errorf("the median of nothing is %v", q)
	}
}
