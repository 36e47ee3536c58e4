package dl_test

import "unsafe"

func bytesAt(p *byte, n int) []byte { return unsafe.Slice(p, n) }
