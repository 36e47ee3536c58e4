//go:build !amd64 || noasm

package imaging

// The passes where there is no vector code; see passes.go.

func horizontalRGB(dst, src []byte, f *filter)   { horizontalRGBFrom(0, dst, src, f) }
func horizontalPlane(dst, src []byte, f *filter) { horizontalPlaneFrom(0, dst, src, f) }

func vertical(dst []byte, lines [][]byte, weight []uint32) { verticalWords(dst, lines, weight) }
