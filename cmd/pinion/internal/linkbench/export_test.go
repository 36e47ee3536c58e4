package linkbench

import "testing"

// SetAvailable makes that much host memory available until the test ends.
func SetAvailable(t *testing.T, bytes int64) {
	was := available
	available = func() int64 { return bytes }
	t.Cleanup(func() { available = was })
}
