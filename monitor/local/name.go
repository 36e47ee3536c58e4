package local

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/pinion-gpu/pinion/internal/process"
)

const (
	suffix = ".sock"
	// draft is in front of the name of a socket that does not listen yet.
	draft = "new-"
)

// nameOf is the name of a process's socket: short, since paths of sockets are.
func nameOf(id process.ID) string {
	return fmt.Sprintf("%d-%x-%x%s", id.PID, id.Start, id.Namespace, suffix)
}

// parseName is the process that a socket is named after, also a draft.
func parseName(name string) (id process.ID, ok bool) {
	text, ok := strings.CutSuffix(strings.TrimPrefix(name, draft), suffix)
	parts := strings.Split(text, "-")
	if !ok || len(parts) != 3 {
		return id, false
	}
	pid, err1 := strconv.ParseUint(parts[0], 10, 32)
	start, err2 := strconv.ParseUint(parts[1], 16, 64)
	namespace, err3 := strconv.ParseUint(parts[2], 16, 64)
	id = process.ID{PID: uint32(pid), Start: start, Namespace: namespace}
	return id, err1 == nil && err2 == nil && err3 == nil && strings.TrimPrefix(name, draft) == nameOf(id)
}
