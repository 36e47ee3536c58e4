//go:build !amd64 || noasm

package imaging

// The passes where there is no vector code; see passes.go.

func horizontalRGB(dst, src [][]byte, t *table) {
	for i := range dst {
		horizontalRGBOf(0, t.N, dst[i], src[i], t)
	}
}

func horizontalPlane(dst, src []byte, t *table) { horizontalPlaneOf(0, t.N, dst, src, t) }

func vertical(dst []byte, lines [][]byte, t *table, k int) {
	verticalWords(dst, lines[:t.taps], t.weight[k*t.stride:])
}
