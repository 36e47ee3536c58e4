//go:build !unix

package procbench

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"

	"github.com/pinion-gpu/pinion/device"
)

func socketPair() (*net.UnixConn, *os.File, error) {
	return nil, nil, fmt.Errorf("procbench: %w: processes cannot be given sockets on %s", device.ErrNotSupported, runtime.GOOS)
}

func isolate(*exec.Cmd) {}
