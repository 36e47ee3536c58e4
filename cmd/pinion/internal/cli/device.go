package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/flags"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/terminal"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/timeline"
)

// DeviceFlag adds --device to cmd.
func DeviceFlag(cmd *cobra.Command) *string {
	name := new(string)
	flags.Text(cmd.Flags(), name, "device", "auto",
		`device: "cuda:0", "host", "host:4GiB" (with a capacity), or "auto" for the best one`, deviceNames)
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

// CheckDevice fails where name is of no backend, with the one that was meant.
func CheckDevice(cmd *cobra.Command, name string) error {
	backend, _, _ := strings.Cut(name, ":")
	known := []string{"auto"}
	for _, b := range device.Backends() {
		known = append(known, b.Name)
	}
	if name == "auto" || slices.Contains(known[1:], backend) {
		return nil
	}
	near := flags.Nearest(backend, known)
	if strings.EqualFold(backend, "cpu") {
		near = "host"
	}
	if near != "" {
		return BadUsage(cmd, "--device is %q, but there is no such backend; did you mean %s?", name, near)
	}
	return BadUsage(cmd, "--device is %q, but the backends are %s", name, strings.Join(known, ", "))
}

// OpenDevice opens a device by name and says, once, what auto passed over. While a
// timeline is recorded, the device is on it.
func OpenDevice(cmd *cobra.Command, name string) (device.Device, error) {
	dev, err := openDevice(cmd, name)
	if r := timeline.Current(); r != nil && err == nil {
		dev = r.Wrap(dev)
	}
	return dev, err
}

// OpenRankDevice is [OpenDevice] for a rank of several on this machine, numbered from 0: of
// "auto", that is the GPU with its number, if there is one.
func OpenRankDevice(cmd *cobra.Command, name string, number, ranks int) (device.Device, error) {
	if name == "auto" && ranks > 1 {
		if numbered := fmt.Sprintf("cuda:%d", number); slices.Contains(deviceNames(), numbered) {
			name = numbered
		}
	}
	return OpenDevice(cmd, name)
}

func openDevice(cmd *cobra.Command, name string) (device.Device, error) {
	if err := CheckDevice(cmd, name); err != nil {
		return nil, err
	}
	if name != "auto" {
		dev, err := device.Open(name)
		if errors.Is(err, device.ErrArgument) {
			return nil, BadUsage(cmd, "--device %q: %w", name, err)
		}
		return dev, err
	}
	dev, passed, err := device.Best()
	if err == nil && passed != nil {
		why := strings.ReplaceAll(passed.Error(), device.ErrUnavailable.Error()+": ", "")
		w := cmd.ErrOrStderr()
		io.WriteString(w, terminal.Fit(w, fmt.Sprintf("Using the %s backend: %s\n", dev.Info().Backend, why)))
	}
	return dev, err
}
