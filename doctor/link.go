package doctor

import (
	"fmt"
	"strings"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/pcie"
	"github.com/pinion-gpu/pinion/internal/units"
)

// linkChecks are about the link between host and device, and the copies over it.
var linkChecks = []Check{
	{Name: "link-generation", Family: "link", Asks: "does the link reach its generation under load?", gpu: true, needs: []string{"copies"}, run: checkGeneration},
	{Name: "link-width", Family: "link", Asks: "does the link have all its lanes?", gpu: true, needs: []string{"copies"}, run: checkWidth},
	{Name: "link-payload", Family: "link", Asks: "how large are the packets of the link?", gpu: true, run: checkPayload},
	{Name: "link-errors", Family: "link", Asks: "had packets to be sent again?", gpu: true, needs: []string{"nvml"}, run: checkReplays},
	{Name: "pinned-copies", Family: "link", Asks: "do copies of pinned memory reach what the link can carry?", gpu: true, needs: []string{"copies"}, run: checkPinned},
	{Name: "symmetry", Family: "link", Asks: "are copies as fast down as up?", gpu: true, needs: []string{"copies"}, run: checkSymmetry},
	{Name: "pageable-copies", Family: "link", Asks: "how much faster are copies of pinned memory than of pageable?", gpu: true, needs: []string{"copies"}, run: checkPageable},
	{Name: "staged-copies", Family: "link", Asks: "do staged copies of pageable memory keep up with pinned ones?", gpu: true, needs: []string{"copies"}, run: checkStaged},
	{Name: "calibration", Family: "link", Asks: "is there a measured model of the link?", gpu: true, run: checkCalibration},
}

// link is the device's link, with what was seen under load.
func (m *machine) link() (l device.Link, loaded, ok bool) {
	l = m.device.facts.Info.Link
	if l.Kind == "" {
		return l, false, false
	}
	if f := m.copies.facts.Loaded; f.Reason == "" {
		n := f.Value.Link
		l.Gen, l.Width, l.MaxGen, l.MaxWidth = n.Gen, n.Width, n.MaxGen, n.MaxWidth
		return l, true, true
	}
	return l, false, true
}

const noLink = "the link is unknown: there is no NVML, or the machine is virtual"

func checkGeneration(m *machine) Result {
	l, loaded, known := m.link()
	switch {
	case !known:
		return skipped(noLink)
	case !loaded:
		return skipped("an idle GPU lowers its generation, and under load it was not seen: %s", m.copies.facts.Loaded.Reason)
	}
	measured := fmt.Sprintf("generation %d of %d under load", l.Gen, l.MaxGen)
	const why = "Each generation carries twice the bytes of the one before."
	if l.Gen < l.MaxGen {
		return warn(measured, why, "Set the slot to its generation (or Auto) in the BIOS, and ASPM off. A riser or cable made for a lower generation does the same: put the card into the slot itself.")
	}
	return ok(measured, why)
}

func checkWidth(m *machine) Result {
	l, _, known := m.link()
	if !known {
		return skipped(noLink)
	}
	measured := fmt.Sprintf("%d of %d lanes", l.Width, l.MaxWidth)
	why := fmt.Sprintf("Copies reach %s of the link's limit at most.", units.Percent(float64(l.Width)/float64(l.MaxWidth)))
	if l.Width < l.MaxWidth {
		return warn(measured, why, "Use a slot with all lanes wired (`sudo lspci -vv` shows LnkCap and LnkSta), seat the card again, and see whether another card or an M.2 drive takes half of the lanes.")
	}
	return ok(measured, why)
}

func checkPayload(m *machine) Result {
	payload := pcie.Payload(m.root, m.device.facts.Info.PCIBusID)
	if payload == 0 {
		return skipped("only root may read it: `sudo pinion doctor --only link-payload`")
	}
	const around = 24 // bytes of header, framing and checksum
	measured := fmt.Sprintf("%d bytes", payload)
	why := fmt.Sprintf("Around each packet are about %d bytes, so %s of the wire carries data.",
		around, units.Percent(float64(payload)/float64(payload+around)))
	if payload < pcie.UsualPayload {
		return warn(measured, why, "Set Max Payload Size to 256 or Auto in the BIOS, or boot Linux with pci=pcie_bus_perf.")
	}
	return ok(measured, why)
}

func checkReplays(m *machine) Result {
	f := m.nvml.facts.Replays
	if f.Reason != "" {
		return skipped("%s", f.Reason)
	}
	const some = 100 // that a link may have had while it was trained
	measured := units.Grouped(int64(f.Value)) + " packets sent again since the driver was loaded"
	const why = "A link that sends packets again loses their time, and may fall back to a lower generation."
	if f.Value > some {
		return warn(measured, why, "Look for errors: `sudo dmesg | grep -i aer`. Seat the card, the riser and its cable again; lower the generation in the BIOS if they go on.")
	}
	return ok(measured, why)
}

// slowRemedy is for copies that are slower than the link.
const slowRemedy = "See numa, iommu, bounce-buffers, gpu-processes and cpu-load here. Else it is the host's memory (all channels filled?) or other traffic behind the same switch (`lspci -tv`)."

func checkPinned(m *machine) Result {
	f := m.copies.facts.Pinned
	if f.Reason != "" {
		return fail("no memory could be pinned: "+f.Reason, "Copies of pageable memory block their caller and reach a fifth of the link's rate.", pinRemedy)
	}
	measured := fmt.Sprintf("%s up, %s down", rate(f.Value.ToDevice), rate(f.Value.ToHost))
	l, _, known := m.link()
	payload := pcie.Payload(m.root, m.device.facts.Info.PCIBusID)
	up, ok1 := pcie.LinkLimit(l.MaxGen, l.MaxWidth, payload, false)
	down, ok2 := pcie.LinkLimit(l.MaxGen, l.MaxWidth, payload, true)
	if !known || !ok1 || !ok2 {
		return skipped("%s, but what the link can carry is unknown", measured)
	}
	least := min(f.Value.ToDevice/up.Rate, f.Value.ToHost/down.Rate)
	why := fmt.Sprintf("The link can carry %s up and %s down; %.0f %% of that or more is usual, and %s is the worse of the two.",
		rate(up.Rate), rate(down.Rate), 100*pcie.Usual, units.Percent(least))
	if least < pcie.Low {
		return warn(measured, why, slowRemedy)
	}
	return ok(measured, why)
}

func checkSymmetry(m *machine) Result {
	f := m.copies.facts.Pinned
	if f.Reason != "" {
		return skipped("nothing was pinned")
	}
	up, down := f.Value.ToDevice, f.Value.ToHost
	ratio := min(up, down) / max(up, down)
	measured := fmt.Sprintf("down is %s of up", units.Percent(down/up))
	const why = "Both directions of a link carry nearly the same; what slows only one of them is not the link."
	if ratio < pcie.Low {
		return warn(measured, why, slowRemedy)
	}
	return ok(measured, why)
}

func checkPageable(m *machine) Result {
	f := m.copies.facts
	if f.Pinned.Reason != "" {
		return skipped("nothing was pinned")
	}
	up, down := f.Pinned.Value.ToDevice/f.Pageable.ToDevice, f.Pinned.Value.ToHost/f.Pageable.ToHost
	measured := fmt.Sprintf("%s up, %s down; pinned is %s and %s times as fast",
		rate(f.Pageable.ToDevice), rate(f.Pageable.ToHost), units.Digits(up), units.Digits(down))
	why := "The driver copies pageable memory through a pinned buffer of its own, by one thread."
	if up < 1.1 && down < 1.1 {
		return warn(measured, why+" That pinning gains nothing says that pinned copies take the same detour.",
			"See bounce-buffers, confidential and wsl here: each of them puts a copy in between.")
	}
	return ok(measured, why)
}

func checkStaged(m *machine) Result {
	f := m.copies.facts
	if f.Staged.Reason != "" || f.Pinned.Reason != "" {
		return skipped("%s", f.Staged.Reason+f.Pinned.Reason)
	}
	part := f.Staged.Value.Rate / f.Pinned.Value.ToDevice
	measured := fmt.Sprintf("%s up with %s, %s of pinned", rate(f.Staged.Value.Rate), units.Count(f.Staged.Value.Copiers, "copier"), units.Percent(part))
	const why = "Pinion copies pageable memory by several goroutines through pinned buffers; each moves about 8 GB/s where memory is near."
	const enough = 0.7
	if part < enough {
		return warn(measured, why, fmt.Sprintf("Pin what is copied often (pinned.Pool; loaders do), or give the process more processors than %d: see cpu-quota, cpu-load and numa.", m.processors))
	}
	return ok(measured, why)
}

func checkCalibration(m *machine) Result {
	const why = "Without a model of this machine, engines choose between plain and staged copies by rules of thumb."
	if f := m.device.facts.Model; f.Reason != "" {
		measured := "none for this machine"
		if !strings.HasSuffix(f.Reason, "does not exist") { // with the name of the file, which is of no interest
			measured = "there is one, but not of this machine: " + f.Reason
		}
		return warn(measured, why, "`pinion bench link --calibrate`, once; it takes about 15 seconds, on a quiet machine.")
	}
	return ok("measured on "+m.device.facts.Model.Value, why)
}
