package pagemem

import (
	"os"
	"strconv"
	"strings"
)

func lockLimit() (bytes int64, unlimited bool) {
	status, _ := os.ReadFile("/proc/self/status")
	uidMap, _ := os.ReadFile("/proc/self/uid_map")
	if canLock(string(status), string(uidMap)) {
		return 0, true
	}
	return rlimit()
}

// canLock reports from /proc/self/status and uid_map whether the process has
// CAP_IPC_LOCK in the initial user namespace, the only one in which it
// counts. The initial namespace maps all user ids to themselves; a rootless
// container does not.
func canLock(status, uidMap string) bool {
	const capIPCLock = 14
	if strings.Join(strings.Fields(uidMap), " ") != "0 0 4294967295" {
		return false
	}
	for line := range strings.Lines(status) {
		if hex, ok := strings.CutPrefix(line, "CapEff:"); ok {
			set, err := strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
			return err == nil && set&(1<<capIPCLock) != 0
		}
	}
	return false
}
