package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/flags"
	"github.com/pinion-gpu/pinion/device"
)

// DeviceFlag adds --device to cmd.
func DeviceFlag(cmd *cobra.Command) *string {
	name := new(string)
	flags.Text(cmd.Flags(), name, "device", "auto",
		`device: "cuda:0", "host", "host:4GiB" (with a capacity), or "auto" for the best there is`, deviceNames)
	return name
}

// deviceNames are the devices of this machine, for completion.
func deviceNames() []string {
	names := []string{"auto"}
	for _, b := range device.Backends() {
		if list, err := b.List(); err == nil {
			names = append(names, list...)
		}
	}
	return names
}

// OpenDevice opens a device by name and says, once, what auto passed over.
func OpenDevice(cmd *cobra.Command, name string) (device.Device, error) {
	if name != "auto" {
		dev, err := device.Open(name)
		if errors.Is(err, device.ErrArgument) {
			return nil, BadUsage(cmd, "--device %q: %w", name, err)
		}
		return dev, err
	}
	dev, passed, err := device.Best()
	if err == nil && passed != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "Using the %s backend: %v\n", dev.Info().Backend, passed)
	}
	return dev, err
}
