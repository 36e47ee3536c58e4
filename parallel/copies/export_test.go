package copies

// Small has operations of so many bytes go by copies, with so much memory to copy to, until the
// result is called.
func Small(least, staging int64) (undo func()) {
	before := [2]int64{leastBytes, stagingBytes}
	leastBytes, stagingBytes = least, staging
	return func() { leastBytes, stagingBytes = before[0], before[1] }
}
