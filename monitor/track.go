package monitor

import "github.com/pinion-gpu/pinion/monitor/leaks"

// Track runs the body of a loop so many times, or until it fails, and says what each
// step leaves behind: device memory, pinned memory, arrays and goroutines that are
// still there, with the stacks that are responsible. It takes 16 steps or more to tell
// what leaks. Loops that cannot be a function use [leaks.Start].
func Track(steps int, body func() error) (leaks.Report, error) {
	w := leaks.Start(leaks.Options{})
	defer w.Stop()
	for range steps {
		if err := body(); err != nil {
			return w.Report(), err
		}
		w.Step()
	}
	return w.Report(), nil
}
