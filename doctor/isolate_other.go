//go:build !unix

package doctor

import "os/exec"

func isolate(*exec.Cmd) {}
