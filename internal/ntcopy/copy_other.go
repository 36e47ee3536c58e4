//go:build !amd64 || noasm

package ntcopy

// Copy is the built-in copy of bytes.
func Copy(dst, src []byte) int { return copy(dst, src) }
