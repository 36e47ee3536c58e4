package pcie

import (
	"encoding/binary"
	"io/fs"
	"path"
	"strings"
)

// Payload is the size in bytes of the largest data packet that the PCIe device
// at that bus address sends, such as 256. root is the file system at /. It is 0
// where it cannot be known: Linux shows the register to root only.
func Payload(root fs.FS, busID string) int64 {
	if busID == "" || path.Base(busID) != busID {
		return 0
	}
	config, err := fs.ReadFile(root, "sys/bus/pci/devices/"+strings.ToLower(busID)+"/config")
	if err != nil {
		return 0
	}
	return payload(config)
}

// payload finds the Device Control register of the PCI Express capability
// in a device's configuration space (PCI Express Base Specification, section
// 7.5.3.4) and decodes its Max_Payload_Size. It is 0 when the register is not
// there.
func payload(config []byte) int64 {
	const (
		status        = 0x06
		hasList       = 1 << 4
		first         = 0x34
		express       = 0x10
		deviceControl = 8
	)
	if len(config) <= first || binary.LittleEndian.Uint16(config[status:])&hasList == 0 {
		return 0
	}
	at := int(config[first]) &^ 3
	for range 48 { // no more fit; a list that goes in circles ends too
		if at < 0x40 || at+deviceControl+2 > len(config) {
			return 0
		}
		if config[at] == express {
			code := binary.LittleEndian.Uint16(config[at+deviceControl:]) >> 5 & 7
			if code > 5 {
				return 0 // reserved
			}
			return 128 << code
		}
		at = int(config[at+1]) &^ 3
	}
	return 0
}
