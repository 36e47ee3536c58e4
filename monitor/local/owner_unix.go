//go:build unix

package local

import (
	"io/fs"
	"syscall"
)

const ownersKnown = true

// ownerOf is the user that a file belongs to.
func ownerOf(info fs.FileInfo) (user int, known bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}
