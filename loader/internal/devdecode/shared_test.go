package devdecode

import (
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// labelled is a wrapper that is held by value and cannot be compared.
type labelled struct {
	device.Wrapper
	labels []string
}

type idle struct {
	JPEGDecoder
	closed *int
}

func (d idle) Close() error { *d.closed++; return nil }

// All users of a device share a decoder, however they have wrapped the device, and
// the last one closes it.
func TestShared(t *testing.T) {
	made, closed := 0, 0
	before := OpenJPEG
	OpenJPEG = func(device.Device) (JPEGDecoder, error) { made++; return idle{closed: &closed}, nil }
	t.Cleanup(func() { OpenJPEG = before })
	var d decoders
	dev, other := devicetest.Open(t), devicetest.OpenDiscrete(t, 1<<20)
	for round := range 2 {
		var open []*sharedDecoder
		for _, dev := range []device.Device{dev, labelled{Wrapper: device.Wrapper{Device: dev}}, labelled{device.Wrapper{Device: dev}, []string{"a"}}, other} {
			s, err := d.open(dev)
			testkit.OK(t, err)
			open = append(open, s)
		}
		if made != 2*(round+1) || closed != 2*round {
			t.Fatalf("round %d: %d decoders made for two devices, %d closed", round, made, closed)
		}
		for _, s := range open {
			testkit.OK(t, s.Close())
		}
		if made != closed || len(d.all) != 0 {
			t.Fatalf("round %d: %d made, %d closed", round, made, closed)
		}
	}
}
