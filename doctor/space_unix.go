//go:build linux || darwin

package doctor

import "golang.org/x/sys/unix"

// space tells the bytes of the file system at path, and those that anybody may
// still use.
func space(path string) (total, free int64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return 0, 0, err
	}
	return int64(s.Blocks) * int64(s.Bsize), int64(s.Bavail) * int64(s.Bsize), nil
}
