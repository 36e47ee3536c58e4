package pcie

import "fmt"

// Of the limit of a link, copies of pinned memory usually reach Usual or more.
// Below Low something slows them.
const (
	Usual = 0.9
	Low   = 0.8
)

// UsualPayload is the payload of a packet, in bytes, that servers set.
const UsualPayload = 256

// Limit is the most payload that a link can carry in one direction.
type Limit struct {
	Rate    float64 // bytes a second
	Formula string  // where that comes from
	Assumed bool    // the payload of a packet is not known, and taken to be UsualPayload
}

// lanes gives the transfers a second of one lane in units of 10^9, and the
// bits of packets in the bits on the wire. Generation 6 sends flits of 256
// bytes, 236 of them packets.
var lanes = map[int]struct {
	rate       float64
	bits, wire int
}{
	1: {2.5, 8, 10}, 2: {5, 8, 10}, 3: {8, 128, 130}, 4: {16, 128, 130}, 5: {32, 128, 130}, 6: {64, 236, 256},
}

// LinkLimit computes the limit of a PCIe link of that generation and width, with
// packets of payload bytes, 0 being unknown. A packet (TLP) around its payload
// has a header of 12 bytes when it completes a read, as all data to the device
// do, and of 16 when it is a write to a 64-bit address, as all data to the host
// are. Up to generation 5 another 8 bytes are framing, sequence number and
// checksum (PCI Express Base Specification, sections 2.2, 3.6 and 4.2). It
// reports false where the link is none that it knows.
func LinkLimit(gen, width int, payload int64, toHost bool) (Limit, bool) {
	lane, known := lanes[gen]
	if !known || width <= 0 || payload < 0 {
		return Limit{}, false
	}
	out := Limit{Assumed: payload == 0}
	if out.Assumed {
		payload = UsualPayload
	}
	around := int64(12)
	if toHost {
		around = 16
	}
	if gen < 6 {
		around += 8
	}
	out.Rate = lane.rate * 1e9 * float64(width) * float64(lane.bits) / float64(lane.wire) / 8 *
		float64(payload) / float64(payload+around)
	out.Formula = fmt.Sprintf("%g GT/s × %d lanes × %d/%d / 8 × %d/(%d+%d) = %.1f GB/s",
		lane.rate, width, lane.bits, lane.wire, payload, payload, around, out.Rate/1e9)
	return out, true
}
