package host

import (
	"fmt"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/units"
)

func init() {
	device.Register(device.Backend{
		Name: "host",
		Rank: 0,
		Open: openSpec,
		List: func() ([]string, error) { return []string{"host"}, nil },
	})
}

// openSpec opens "host" or, with a capacity such as "4GiB" behind the colon,
// "host:4GiB".
func openSpec(spec string) (device.Device, error) {
	if spec == "" {
		return Open(0)
	}
	n, err := units.ParseBytes(spec)
	if err != nil {
		return nil, fmt.Errorf("host: capacity: %w", err)
	}
	return Open(n)
}
