package pagemem

// Present returns how many bytes of b are in pages that this process can touch
// now without a fault. It reports false where the system does not tell.
//
// Of memory that a driver mapped, and of which it takes pages away from the
// process, nothing else tells.
func Present(b []byte) (bytes int64, known bool) {
	if len(b) == 0 {
		return 0, true
	}
	return present(b)
}
