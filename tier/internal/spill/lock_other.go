//go:build !unix

package spill

import "os"

// nameless: an open file can lose its name.
const nameless = false

// lock does nothing: an open file cannot be removed by others.
func lock(*os.File) error { return nil }

// abandoned says yes: removing a file that is open fails.
func abandoned(string) bool { return true }
