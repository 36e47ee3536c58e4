//go:build !amd64 || noasm

package kernels

func blend(p planes, ratio, other float32) {
	for _, plane := range p[:3] {
		blendOf(plane, ratio, float32(rest(ratio)*other))
	}
}

func saturate(p planes, ratio float32) {
	r, g, b := p.rgb()
	saturateOf(r, g, b, ratio)
}

func turn(p planes, by float32) {
	r, g, b := p.rgb()
	turnOf(r, g, b, by)
}
