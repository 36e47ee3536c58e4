package outofcore

import "math"

// Floor is the fewest bytes that any order of the work must move over the link
// with this much device memory, and the times that follow. No plan is faster.
type Floor struct {
	H2DBytes, D2HBytes int64   // every factor comes in once, C goes out once (and comes in, if it is read)
	BothBytes          int64   // in both directions together; see [Problem.Floor]
	LinkSeconds        float64 // what those bytes take
	ComputeSeconds     float64 // what the products take
}

// Seconds is the larger of the two: copies and computing can overlap.
func (f Floor) Seconds() float64 { return max(f.LinkSeconds, f.ComputeSeconds) }

// Floor returns the least that p must move.
//
// Every element of A and B is read at least once, and every element of C
// written. With room for s elements on the device, both directions together
// move at least 2mnk/sqrt(s) - 2s elements: Smith, Lowery, Langou and van de
// Geijn, "A tight I/O lower bound for matrix multiplication" (2019), which
// sharpens Hong and Kung (1981) and Irony, Toledo and Tiskin (2004).
// Kwasniewski et al. (SC 2019) show blockings that come near it.
func (p *Problem) Floor() Floor {
	size := int64(p.Type.Size())
	bytes := p.matrixBytes()
	f := Floor{H2DBytes: bytes[matrixA] + bytes[matrixB], D2HBytes: bytes[matrixC]}
	if p.ReadC {
		f.H2DBytes += f.D2HBytes
	}
	s := float64(p.DeviceBytes / size)
	products := float64(p.M) * float64(p.N) * float64(p.K)
	f.BothBytes = max(f.H2DBytes+f.D2HBytes, int64(2*products/math.Sqrt(s)-2*s)*size)
	if p.H2DRate > 0 && p.D2HRate > 0 {
		f.LinkSeconds = max(float64(f.H2DBytes)/p.H2DRate, float64(f.D2HBytes)/p.D2HRate,
			float64(f.BothBytes)/(p.H2DRate+p.D2HRate))
	}
	if most := p.Speed.Most(); most > 0 {
		f.ComputeSeconds = 2 * products / most
	}
	return f
}
