package pagemem

import "golang.org/x/sys/unix"

// macOS has limits on wired memory beside the process's own.
func lockLimit() (bytes int64, unlimited bool) {
	bytes, unlimited = rlimit()
	for _, name := range []string{"vm.user_wire_limit", "vm.global_user_wire_limit"} {
		limit, err := unix.SysctlUint64(name)
		if err == nil && limit < 1<<63 && (unlimited || int64(limit) < bytes) {
			bytes, unlimited = int64(limit), false
		}
	}
	return bytes, unlimited
}
