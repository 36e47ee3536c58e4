//go:build unix

package file

import (
	"os"
	"syscall"
)

// openFlags open a file to read. A pipe in the place of a file must not block
// before it is seen to be one. It also is faster: where the flag is set, package
// os need not set and reset it, which is four of nine system calls for a file.
const openFlags = os.O_RDONLY | syscall.O_NONBLOCK
