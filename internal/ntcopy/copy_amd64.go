//go:build amd64 && !noasm

package ntcopy

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// group is what the vector code copies at a time: four pages, in turn.
const group = 4 * 4096

// copyGroups copies n bytes, a multiple of group above 0; dst is a multiple
// of 32.
//
//go:noescape
func copyGroups(dst, src *byte, n uintptr)

var avx2 = cpu.X86.HasAVX2

// Copy is the built-in copy of bytes. Pieces of less than 32 KiB, and
// processors without AVX2, take that.
func Copy(dst, src []byte) int {
	n := min(len(dst), len(src))
	if !avx2 || n < 2*group {
		return copy(dst, src)
	}
	dst, src = dst[:n], src[:n]
	head := int(-uintptr(unsafe.Pointer(unsafe.SliceData(dst))) % 32)
	copy(dst[:head], src)
	body := (n - head) / group * group
	copyGroups(&dst[head], &src[head], uintptr(body))
	copy(dst[head+body:], src[head+body:])
	return n
}
