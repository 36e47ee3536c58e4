package benchcmd

import (
	"io"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/linkbench"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/linkreport"
	"github.com/pinion-gpu/pinion/internal/cpuname"
)

// writeReport writes the run as an HTML page.
func (r *linkRun) writeReport(w io.Writer) error {
	return linkreport.Render(w, &linkreport.Report{
		MeasuredAt: r.MeasuredAt, Commit: r.Commit, Platform: r.Platform, CPU: cpuname.Name(), CPUs: r.CPUs,
		Device: r.info, MaxPayload: linkbench.MaxPayload(r.info.PCIBusID), Opened: r.opened, Bench: *r.Report,
	})
}
