package sharded

// SetAtOnce has runs gathered in smaller parts, and returns what puts it back.
func SetAtOnce(n int64) (back func()) {
	before := atOnce
	atOnce = n
	return func() { atOnce = before }
}
