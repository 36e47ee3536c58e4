package linkreport

import (
	"fmt"

	"github.com/pinion-gpu/pinion/device"
)

// limit is the most payload that a link can carry in one direction.
type limit struct {
	rate    float64 // bytes a second
	formula string
	assumed bool // the size of packets is not known
}

const usualPayload = 256 // bytes; what servers set

// lanes gives the transfers a second of one lane in units of 10^9, and the
// bits of packets in the bits on the wire. Generation 6 sends flits of 256
// bytes, 236 of them packets.
var lanes = map[int]struct {
	rate       float64
	bits, wire int
}{
	1: {2.5, 8, 10}, 2: {5, 8, 10}, 3: {8, 128, 130}, 4: {16, 128, 130}, 5: {32, 128, 130}, 6: {64, 236, 256},
}

// linkLimit computes the limit of a PCIe link. A packet (TLP) around its
// payload has a header of 12 bytes when it completes a read, as all data to
// the device do, and of 16 when it is a write to a 64-bit address, as all data
// to the host are. Up to generation 5 another 8 bytes are framing, sequence
// number and checksum (PCI Express Base Specification, sections 2.2, 3.6 and
// 4.2).
func linkLimit(l device.Link, payload int64, direction string) (limit, bool) {
	lane, known := lanes[l.MaxGen]
	if l.Kind != "PCIe" || !known || l.MaxWidth <= 0 || payload < 0 {
		return limit{}, false
	}
	out := limit{assumed: payload == 0}
	if out.assumed {
		payload = usualPayload
	}
	around := int64(12)
	if direction == "d2h" {
		around = 16
	}
	if l.MaxGen < 6 {
		around += 8
	}
	out.rate = lane.rate * 1e9 * float64(l.MaxWidth) * float64(lane.bits) / float64(lane.wire) / 8 *
		float64(payload) / float64(payload+around)
	out.formula = fmt.Sprintf("%g GT/s × %d lanes × %d/%d / 8 × %d/(%d+%d) = %.1f GB/s",
		lane.rate, l.MaxWidth, lane.bits, lane.wire, payload, payload, around, out.rate/1e9)
	return out, true
}

func (r *Report) limit(direction string) (limit, bool) {
	return linkLimit(r.Device.Link, r.MaxPayload, direction)
}
