package top

import (
	"fmt"
	"strings"
	"time"

	"github.com/pinion-gpu/pinion/internal/units"
)

// Summary is a look in a line for each process, and one for each GPU, for a log.
func (l *Look) Summary() string {
	var b strings.Builder
	line := func(facts ...string) {
		b.WriteString(l.At.Format(time.TimeOnly))
		for _, f := range facts {
			if f != "" {
				b.WriteString("  " + f)
			}
		}
		b.WriteByte('\n')
	}
	for _, g := range l.GPUs {
		busy, used := "", ""
		if g.MemoryTotalBytes > 0 {
			used = of(g.MemoryUsedBytes, g.MemoryTotalBytes)
		}
		if g.BusyFraction != nil {
			busy = units.Percent(*g.BusyFraction) + " busy"
		}
		if g.Reason != "" {
			busy = clean(g.Reason)
		}
		line(fmt.Sprintf("GPU %d", g.Index), used, busy)
	}
	for i := range l.Processes {
		x := &l.Processes[i]
		facts := []string{fmt.Sprint(x.PID), clean(shortCommand(x.Command)), clean(x.SnapshotReason)}
		if n := x.deviceBytes(); n > 0 {
			facts = append(facts, units.Bytes(n)+" on devices")
		}
		for _, d := range directions[:2] {
			var total float64
			for _, link := range x.Links {
				if link.Direction == d.name {
					total += link.GBPerS
				}
			}
			if total > 0 {
				facts = append(facts, d.word+" "+rate(total))
			}
		}
		for _, ld := range x.Loaders {
			facts = append(facts, samples(ld.SamplesPerS))
			if ld.Limit != "" {
				facts = append(facts, "limit: "+clean(ld.Limit))
			}
		}
		line(facts...)
	}
	if len(l.GPUs)+len(l.Processes) == 0 {
		line("no process uses Pinion, and there is no GPU")
	}
	return b.String()
}
