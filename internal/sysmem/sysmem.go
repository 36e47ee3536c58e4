package sysmem

// Available returns the bytes that this process may still use before the
// system swaps, reclaims what others need, or kills: the machine's available
// memory, or less where a control group has a limit (its limit, minus its
// usage, plus the file cache in it that can be dropped). It is 0 when nothing
// is left and also when nothing is known.
func Available() int64 { return now().available }

// Limit returns the bytes that this process could ever use: the machine's
// memory or the smallest limit of its control groups. It is 0 when unknown.
func Limit() int64 { return now().limit }

// memory is one reading, in bytes; zero where unknown.
type memory struct {
	limit, available int64
}
