//go:build (amd64 || arm64) && !noasm

package linger

// Pause takes a tenth of a microsecond or so, and tells the processor that the
// caller spins: its sibling thread gets more of the core, and memory that
// others write is asked for less often.
func Pause()
