package pinned

import (
	"testing"
	"time"
)

func TestStatsString(t *testing.T) {
	for _, c := range []struct {
		stats Stats
		want  string
	}{
		{Stats{
			Name: "loader", Device: "cuda:0", NUMANode: 1,
			BudgetBytes: 4 << 30, ReservedBytes: 1536 * mib, PeakReservedBytes: 2 << 30,
			ActiveBytes: 1024 * mib, PeakActiveBytes: 1600 * mib,
			PendingBytes: 12 << 10, PeakPendingBytes: 256 * mib,
			FreeBytes: 512*mib - 12<<10, RequestedBytes: 1023*mib + 512<<10,
			Segments: 9, Buffers: 40, PendingBuffers: 2,
			Allocs: 123456, Reuses: 123440, SegmentAllocs: 16, PinTime: 87654321 * time.Nanosecond,
		}, `pinned memory of loader on cuda:0, NUMA node 1
                       now        peak
budget               4 GiB
reserved          1.50 GiB       2 GiB
  active             1 GiB    1.56 GiB
  pending           12 KiB     256 MiB
  free             512 MiB
requested         1.00 GiB
segments                 9
buffers                 40  and 2 pending
allocs              123456  100.0 % reused, 16 segments made in 87.654ms
`},
		{Stats{
			Device: "host", NUMANode: -1, NUMAError: "operation not permitted",
			BudgetBytes: 1 << 30, ReservedBytes: 24 * mib, PeakReservedBytes: 24 * mib,
			ActiveBytes: 8 * mib, PeakActiveBytes: 24 * mib, FreeBytes: 12 * mib,
			LostBytes: 4 * mib, LostReason: "stream broken",
			PageableBytes: 16 * mib, PageableReason: "page-locked memory limit reached",
			RequestedBytes: 100, Segments: 3, Buffers: 1, Allocs: 3, SegmentAllocs: 3, PinTime: time.Millisecond,
			Waits: 1, EventError: "used after close",
		}, `pinned memory on host
                       now        peak
budget               1 GiB
reserved            24 MiB      24 MiB
  active             8 MiB      24 MiB
  pending              0 B         0 B
  free              12 MiB
  lost               4 MiB  stream broken
requested            100 B
pageable            16 MiB  page-locked memory limit reached
segments                 3
buffers                  1  and 0 pending
allocs                   3  0.0 % reused, 3 segments made in 1ms
waits                    1  frees that waited for the device
event error   used after close
NUMA error    operation not permitted
`},
	} {
		if got := c.stats.String(); got != c.want {
			t.Errorf("got:\n%s\nwant:\n%s", got, c.want)
		}
	}
}
