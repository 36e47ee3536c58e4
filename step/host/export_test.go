package host

// SetWorkers says how many goroutines compute beside the one that asks, and returns how
// many did.
func SetWorkers(n int) int {
	old := cap(workers)
	workers = make(chan struct{}, n)
	return old
}
