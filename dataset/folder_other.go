//go:build !unix

package dataset

import "os"

const openFlags = os.O_RDONLY
