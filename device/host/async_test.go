package host_test

import (
	"testing"

	"github.com/pinion-gpu/pinion/device/host"
)

// Memory freed in stream order makes room, however far behind the stream is: an
// allocation that finds no room waits for the stream, or looks again.
func TestRoomOfWhatIsFreed(t *testing.T) {
	const n = 1 << 20
	dev, err := host.Open(2 * n)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	s, err := dev.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range 50_000 {
		p, err := dev.AllocAsync(s, n)
		if err != nil {
			t.Fatalf("allocation %d: %v", i, err)
		}
		if err := dev.FreeAsync(s, p); err != nil {
			t.Fatal(err)
		}
	}
}
