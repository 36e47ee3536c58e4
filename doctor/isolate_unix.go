//go:build unix

package doctor

import (
	"os/exec"
	"syscall"
)

// isolate keeps an interrupt of the terminal from the child: its parent ends it.
func isolate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
