package pipeline

import (
	"testing"
	"time"
)

// runOf makes a report of chunks of 1 MiB whose stages take the given times in
// milliseconds: start and end of each.
func runOf(chunks ...[6]int) Report {
	r := Report{ChunkBytes: 1 << 20, Buffers: 3, DeviceBytes: 6 << 20}
	at := func(ms int) time.Duration { return time.Duration(ms) * time.Millisecond }
	for _, c := range chunks {
		r.Chunks = append(r.Chunks, ChunkTimes{
			Bytes:   1 << 20,
			CopyIn:  Interval{at(c[0]), at(c[1])},
			Compute: Interval{at(c[2]), at(c[3])},
			CopyOut: Interval{at(c[4]), at(c[5])},
		})
	}
	r.derive()
	return r
}

func TestReportDerived(t *testing.T) {
	ms := time.Millisecond
	for _, c := range []struct {
		name                         string
		report                       Report
		wall, in, compute, out, gaps time.Duration
		ideal                        time.Duration
		overlap                      float64
	}{
		{"nothing", runOf(), 0, 0, 0, 0, 0, 0, 0},
		{"one chunk", runOf([6]int{0, 2, 2, 5, 5, 6}), 6 * ms, 2 * ms, 3 * ms, 1 * ms, 0, 6 * ms, 0},
		{"serial", runOf([6]int{0, 2, 2, 4, 4, 6}, [6]int{6, 8, 8, 10, 10, 12}),
			12 * ms, 4 * ms, 4 * ms, 4 * ms, 4 * ms, 8 * ms, 0},
		{"perfect", runOf([6]int{0, 2, 2, 4, 4, 6}, [6]int{2, 4, 4, 6, 6, 8}, [6]int{4, 6, 6, 8, 8, 10}),
			10 * ms, 6 * ms, 6 * ms, 6 * ms, 0, 10 * ms, 6.0 / 10},
		{"no out", runOf([6]int{0, 2, 2, 4, 0, 0}, [6]int{2, 4, 5, 7, 0, 0}),
			7 * ms, 4 * ms, 4 * ms, 0, 1 * ms, 6 * ms, 2.0 / 4},
		// The second copy in begins in the first one's last millisecond.
		{"two at once", runOf([6]int{0, 4, 4, 6, 6, 7}, [6]int{3, 7, 7, 9, 9, 10}),
			10 * ms, 7 * ms, 4 * ms, 2 * ms, 1 * ms, 7*ms + 3*ms, 2.0 / 8},
	} {
		r := c.report
		if r.Wall != c.wall || r.CopyIn != c.in || r.Compute != c.compute || r.CopyOut != c.out || r.Gaps != c.gaps {
			t.Errorf("%s: wall %v, in %v, compute %v, out %v, gaps %v", c.name, r.Wall, r.CopyIn, r.Compute, r.CopyOut, r.Gaps)
		}
		if r.Ideal != c.ideal || r.Overlap != c.overlap {
			t.Errorf("%s: ideal %v, want %v; overlap %v, want %v", c.name, r.Ideal, c.ideal, r.Overlap, c.overlap)
		}
		if c.wall > 0 && r.Efficiency != float64(c.ideal)/float64(c.wall) {
			t.Errorf("%s: efficiency %v", c.name, r.Efficiency)
		}
		if want := int64(len(r.Chunks)) << 20; r.InBytes != want {
			t.Errorf("%s: %d bytes, want %d", c.name, r.InBytes, want)
		}
	}
}

func TestReportGaps(t *testing.T) {
	r := runOf([6]int{0, 1, 1, 2, 2, 3}, [6]int{1, 4, 4, 5, 5, 6}, [6]int{4, 5, 5, 6, 6, 7})
	for k, want := range []time.Duration{0, 2 * time.Millisecond, 0} {
		if got := r.Chunks[k].Gap; got != want {
			t.Errorf("gap before chunk %d: %v, want %v", k, got, want)
		}
	}
}

func TestReportString(t *testing.T) {
	full := runOf([6]int{0, 2, 2, 4, 4, 6}, [6]int{2, 4, 5, 7, 7, 9}, [6]int{4, 6, 7, 9, 9, 11})
	full.OutBytes, full.PinnedIn = 2*full.InBytes, true
	reduction := runOf([6]int{0, 2, 2, 4, 0, 0})
	for _, c := range []struct {
		name   string
		report Report
		want   string
	}{
		{"in and out", full, `3 chunks of 1 MiB, 3 buffers, 6 MiB of device memory
             time  of wall  bytes  GB/s
copy in   6.00 ms   54.5 %  3 MiB  0.52  pinned
compute   6.00 ms   54.5 %
copy out  6.00 ms   54.5 %  6 MiB  1.05  not pinned
wall      11.0 ms  100.0 %  3 MiB  0.29
ideal     10.0 ms   90.9 %               efficiency 90.9 %
gaps      1.00 ms    9.1 %               in computing; 50.0 % of the copying overlaps it
`},
		{"reduction", reduction, `1 chunk of 1 MiB, 3 buffers, 6 MiB of device memory
            time  of wall  bytes  GB/s
copy in  2.00 ms   50.0 %  1 MiB  0.52  not pinned
compute  2.00 ms   50.0 %
wall     4.00 ms  100.0 %  1 MiB  0.26
ideal    4.00 ms  100.0 %               efficiency 100.0 %
gaps        0 ns    0.0 %               in computing; 0.0 % of the copying overlaps it
`},
		{"nothing", Report{ChunkBytes: 1000}, `0 chunks of 1000 B, 0 buffers, 0 B of device memory
         time  of wall  bytes  GB/s
copy in  0 ns    0.0 %               not pinned
compute  0 ns    0.0 %
wall     0 ns    0.0 %
ideal    0 ns    0.0 %               efficiency 0.0 %
gaps     0 ns    0.0 %               in computing; 0.0 % of the copying overlaps it
`},
	} {
		if got := c.report.String(); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}
