package benchcmd

import (
	"io"
	"os"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/linkreport"
	"github.com/pinion-gpu/pinion/internal/cpuname"
	"github.com/pinion-gpu/pinion/internal/pcie"
)

// writeReport writes the run as an HTML page.
func (r *linkRun) writeReport(w io.Writer) error {
	return linkreport.Render(w, &linkreport.Report{
		MeasuredAt: r.MeasuredAt, Commit: r.Commit, Platform: r.Platform, CPU: cpuname.Name(), CPUs: r.CPUs,
		Device: r.info, MaxPayload: pcie.Payload(os.DirFS("/"), r.info.PCIBusID), Opened: r.opened, Bench: *r.Report,
	})
}
