package harness

import (
	"bytes"
	"fmt"
	"os"
)

// Resident is how much of this process's memory the system holds now, and at
// most until now, in bytes. It fails with [errors.ErrUnsupported] where the
// system does not tell.
func Resident() (now, peak int64, err error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, 0, err
	}
	for _, field := range []struct {
		name  string
		bytes *int64
	}{{"VmRSS:", &now}, {"VmHWM:", &peak}} {
		_, rest, _ := bytes.Cut(status, []byte(field.name))
		if _, err := fmt.Sscan(string(rest), field.bytes); err != nil {
			return 0, 0, fmt.Errorf("%s in /proc/self/status: %w", field.name, err)
		}
		*field.bytes <<= 10 // it counts KiB
	}
	return now, peak, nil
}
