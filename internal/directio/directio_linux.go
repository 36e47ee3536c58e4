package directio

import (
	"errors"
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// control runs fn with the descriptor of f, which stays open meanwhile.
func control(f *os.File, fn func(fd int) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	if ctlErr := conn.Control(func(fd uintptr) { err = fn(int(fd)) }); ctlErr != nil {
		return ctlErr
	}
	return err
}

// again calls fn until no signal interrupts it.
func again(fn func() (int, error)) (n int, err error) {
	for {
		if n, err = fn(); err != unix.EINTR {
			return max(n, 0), err
		}
	}
}

// readNoWait reads what the page cache holds at the start of b: none at all is
// no error. It fails with [errors.ErrUnsupported] where the file cannot tell.
func readNoWait(f *os.File, b []byte, offset int64) (n int, err error) {
	err = control(f, func(fd int) (err error) {
		n, err = again(func() (int, error) { return unix.Preadv2(fd, [][]byte{b}, offset, unix.RWF_NOWAIT) })
		return err
	})
	switch err {
	case unix.EAGAIN:
		return 0, nil
	case unix.EOPNOTSUPP, unix.ENOSYS, unix.EINVAL:
		return 0, errors.ErrUnsupported
	}
	return n, err
}

func preadOnce(f *os.File, b []byte, offset int64) (n int, err error) {
	err = control(f, func(fd int) (err error) {
		n, err = again(func() (int, error) { return unix.Pread(fd, b, offset) })
		return err
	})
	return n, err
}

func pwriteOnce(f *os.File, b []byte, offset int64) (n int, err error) {
	err = control(f, func(fd int) (err error) {
		n, err = again(func() (int, error) { return unix.Pwrite(fd, b, offset) })
		return err
	})
	return n, err
}

// refused reports whether a file system says by err that it does not read that
// way.
func refused(err error) bool { return err == unix.EINVAL || err == unix.EOPNOTSUPP }

// OpenDirect opens the file behind f again, for the same access and O_DIRECT.
func OpenDirect(f *os.File) (direct *os.File, err error) {
	err = control(f, func(fd int) error {
		var st unix.Statx_t
		if unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_DIOALIGN, &st) == nil && st.Mask&unix.STATX_DIOALIGN != 0 {
			if n := max(st.Dio_mem_align, st.Dio_offset_align); n == 0 || n > Align {
				return fmt.Errorf("the file system does not support O_DIRECT on this file in units of %d bytes", Align)
			}
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		if err != nil {
			return err
		}
		if direct, err = os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", fd), flags&unix.O_ACCMODE|unix.O_DIRECT, 0); err != nil {
			return fmt.Errorf("O_DIRECT: %w", err)
		}
		return nil
	})
	return direct, err
}

// checkAccess checks that f was opened for what it is to be used for.
func checkAccess(f *os.File, write bool) error {
	return control(f, func(fd int) error {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		if err != nil {
			return err
		}
		switch mode := flags & unix.O_ACCMODE; {
		case write && mode == unix.O_RDONLY:
			return fmt.Errorf("%w: the file was opened for reading only", os.ErrPermission)
		case !write && mode == unix.O_WRONLY:
			return fmt.Errorf("%w: the file was opened for writing only", os.ErrPermission)
		case write && flags&unix.O_APPEND != 0:
			return fmt.Errorf("%w: the file was opened with O_APPEND, which writes at its end only", os.ErrPermission)
		}
		return nil
	})
}

// cacheMap is a mapping of a whole file that nobody may touch: it is there to
// ask which pages are in the cache.
type cacheMap struct{ pages []byte }

// mapCache maps f, which has that size. It returns nil where the kernel does
// not answer.
func mapCache(f *os.File, size int64) *cacheMap {
	if size <= 0 || size > math.MaxInt64/2 {
		return nil
	}
	page := int64(os.Getpagesize())
	beyond := (size + page - 1) &^ (page - 1)
	c := &cacheMap{}
	err := control(f, func(fd int) (err error) {
		c.pages, err = unix.Mmap(fd, 0, int(beyond+page), unix.PROT_NONE, unix.MAP_SHARED)
		return err
	})
	if err != nil {
		return nil
	}
	// The kernel tells those who may not know that everything is there, even what
	// cannot be.
	if c.resident(beyond, 1) {
		_ = c.close()
		return nil
	}
	return c
}

// resident reports whether n > 0 bytes at offset are in the cache.
func (c *cacheMap) resident(offset, n int64) bool {
	page := int64(os.Getpagesize())
	end := min(offset+n, int64(len(c.pages)))
	for at := offset &^ (page - 1); at < end; {
		var present [512]byte
		part := c.pages[at:min(at+int64(len(present))*page, (end+page-1)&^(page-1))]
		if err := mincore(part, &present[0]); err != nil {
			return false
		}
		for i := range (int64(len(part)) + page - 1) / page {
			if present[i]&1 == 0 {
				return false
			}
		}
		at += int64(len(part))
	}
	return end > offset
}

func (c *cacheMap) close() error {
	if c == nil {
		return nil
	}
	return unix.Munmap(c.pages)
}
