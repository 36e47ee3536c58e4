package pinned

import (
	"fmt"
	"strings"
	"time"

	"github.com/pinion-gpu/pinion/internal/units"
)

// counters are what [Stats] is made of.
type counters struct {
	reserved, pageable              int64
	active, requested, pendingBytes int64
	lost                            int64
	peakReserved                    int64
	peakActive, peakPending         int64

	buffers                              int
	allocs, reuses, segmentAllocs, waits int64
	failures                             int64
	pinTime                              time.Duration

	registered     int64 // bytes that Register has pinned
	registrations  int64 // calls of Register that succeeded
	releases       int64 // blocks that became free
	mute           int   // pending blocks that could not be asked
	pageableReason string
	lostReason     error
	eventErr       error
	numaErr        error
}

// Stats is the state of a [Pool] at one moment. Reserved bytes are the sum of
// active, pending, free and lost ones.
type Stats struct {
	Name   string // of Options
	Device string // that the memory is pinned for

	NUMANode int // on which segments are placed while it has room; -1: none in particular

	BudgetBytes   int64 // the most that may be reserved
	ReservedBytes int64 // in segments
	PageableBytes int64 // of these, in segments that are not pinned

	RegisteredBytes int64 // of the caller's memory, pinned by Register; they count against the budget too

	ActiveBytes    int64 // handed out, in whole pages
	RequestedBytes int64 // of these, asked for
	PendingBytes   int64 // freed, but perhaps still in use by a device
	FreeBytes      int64 // ready to be handed out
	LostBytes      int64 // given up for good, see LostReason

	PeakReservedBytes int64
	PeakActiveBytes   int64
	PeakPendingBytes  int64

	Segments       int
	Buffers        int // handed out
	PendingBuffers int

	Allocs        int64         // successful calls of Alloc
	Reuses        int64         // of these, served from memory that was there
	Failures      int64         // calls of Alloc that failed
	SegmentAllocs int64         // segments made
	Waits         int64         // events that could not be recorded, so that Free waited for the device
	PinTime       time.Duration // spent making segments: mapping, faulting in, pinning

	PageableReason string // why the newest pageable segment could not be pinned
	LostReason     string // of the newest loss
	EventError     string // newest error of asking whether pending work is done
	NUMAError      string // why the newest segment that NUMANode did not get was refused
}

// Stats returns the pool's state, after taking back pending buffers whose
// work is done.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.poll()
	return Stats{
		Name:              p.name,
		Device:            p.dev.Info().ID,
		NUMANode:          p.node,
		BudgetBytes:       p.budget,
		ReservedBytes:     p.reserved,
		PageableBytes:     p.pageable,
		RegisteredBytes:   p.registered,
		ActiveBytes:       p.active,
		RequestedBytes:    p.requested,
		PendingBytes:      p.pendingBytes,
		FreeBytes:         p.reserved - p.active - p.pendingBytes - p.lost,
		LostBytes:         p.lost,
		PeakReservedBytes: p.peakReserved,
		PeakActiveBytes:   p.peakActive,
		PeakPendingBytes:  p.peakPending,
		Segments:          len(p.segments),
		Buffers:           p.buffers,
		PendingBuffers:    len(p.pending),
		Allocs:            p.allocs,
		Reuses:            p.reuses,
		Failures:          p.failures,
		SegmentAllocs:     p.segmentAllocs,
		Waits:             p.waits,
		PinTime:           p.pinTime,
		PageableReason:    p.pageableReason,
		LostReason:        errorText(p.lostReason),
		EventError:        errorText(p.eventErr),
		NUMAError:         errorText(p.numaErr),
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// String writes the statistics as a table. Rows about trouble appear only
// when there is some.
func (s Stats) String() string {
	var t strings.Builder
	title := "pinned memory"
	if s.Name != "" {
		title += " of " + s.Name
	}
	title += " on " + s.Device
	if s.NUMANode >= 0 {
		title += fmt.Sprintf(", NUMA node %d", s.NUMANode)
	}
	fmt.Fprintln(&t, title)
	fmt.Fprintf(&t, "%-14s%12s%12s\n", "", "now", "peak")
	row := func(name string, now int64, peak ...int64) {
		fmt.Fprintf(&t, "%-14s%12s", name, units.Bytes(now))
		for _, n := range peak {
			fmt.Fprintf(&t, "%12s", units.Bytes(n))
		}
		t.WriteByte('\n')
	}
	trouble := func(name string, n int64, reason string) {
		if n > 0 {
			fmt.Fprintf(&t, "%-14s%12s  %s\n", name, units.Bytes(n), reason)
		}
	}
	row("budget", s.BudgetBytes)
	row("reserved", s.ReservedBytes, s.PeakReservedBytes)
	row("  active", s.ActiveBytes, s.PeakActiveBytes)
	row("  pending", s.PendingBytes, s.PeakPendingBytes)
	row("  free", s.FreeBytes)
	trouble("  lost", s.LostBytes, s.LostReason)
	row("requested", s.RequestedBytes)
	if s.RegisteredBytes > 0 {
		row("registered", s.RegisteredBytes)
	}
	trouble("pageable", s.PageableBytes, s.PageableReason)
	reused := 0.0
	if s.Allocs > 0 {
		reused = 100 * float64(s.Reuses) / float64(s.Allocs)
	}
	fmt.Fprintf(&t, "%-14s%12d\n", "segments", s.Segments)
	fmt.Fprintf(&t, "%-14s%12d  and %d pending\n", "buffers", s.Buffers, s.PendingBuffers)
	fmt.Fprintf(&t, "%-14s%12d  %.1f %% reused, %d segments made in %s\n",
		"allocs", s.Allocs, reused, s.SegmentAllocs, s.PinTime.Round(time.Microsecond))
	if s.Waits > 0 {
		fmt.Fprintf(&t, "%-14s%12d  frees that waited for the device\n", "waits", s.Waits)
	}
	if s.EventError != "" {
		fmt.Fprintf(&t, "%-14s%s\n", "event error", s.EventError)
	}
	if s.NUMAError != "" {
		fmt.Fprintf(&t, "%-14s%s\n", "NUMA error", s.NUMAError)
	}
	return t.String()
}
