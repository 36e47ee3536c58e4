//go:build !unix

package main

import "os"

// endings are signals that would end the command without a word: here there are none
// that main does not see to. os.Interrupt is one of those, since an empty list would
// be all.
var endings = []os.Signal{os.Interrupt}
