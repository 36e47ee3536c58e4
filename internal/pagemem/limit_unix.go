//go:build unix && !linux && !darwin

package pagemem

func lockLimit() (bytes int64, unlimited bool) { return rlimit() }
