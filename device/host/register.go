package host

import (
	"fmt"
	"math"

	"github.com/dustin/go-humanize"

	"github.com/pinion-gpu/pinion/device"
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
	n, err := humanize.ParseBytes(spec)
	if err != nil || n == 0 || n > math.MaxInt64 {
		return nil, fmt.Errorf("host: %w: capacity %q is not a size such as 4GiB", device.ErrArgument, spec)
	}
	return Open(int64(n))
}
