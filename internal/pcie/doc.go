// Package pcie tells what a PCIe link can carry: the payload of its packets, and
// the rate of payload that is left of the rate on the wire.
//
//	payload := pcie.Payload(os.DirFS("/"), info.PCIBusID)
//	limit, ok := pcie.LinkLimit(5, 16, payload, false)
//	fmt.Println(limit.Formula) // 32 GT/s × 16 lanes × 128/130 / 8 × 256/(256+20) = 58.4 GB/s
//
// No copy quite reaches that limit: acknowledgements and flow control take a
// little more.
package pcie
