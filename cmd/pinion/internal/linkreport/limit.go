package linkreport

import "github.com/pinion-gpu/pinion/internal/pcie"

// limit is what the link can carry in a direction, "h2d" or "d2h".
func (r *Report) limit(direction string) (pcie.Limit, bool) {
	l := r.Device.Link
	if l.Kind != "PCIe" {
		return pcie.Limit{}, false
	}
	return pcie.LinkLimit(l.MaxGen, l.MaxWidth, r.MaxPayload, direction == "d2h")
}
