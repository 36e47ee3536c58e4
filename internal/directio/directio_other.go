//go:build !linux

package directio

import (
	"errors"
	"fmt"
	"os"
	"runtime"
)

func readNoWait(*os.File, []byte, int64) (int, error) { return 0, errors.ErrUnsupported }
func preadOnce(*os.File, []byte, int64) (int, error)  { return 0, errors.ErrUnsupported }
func pwriteOnce(*os.File, []byte, int64) (int, error) { return 0, errors.ErrUnsupported }

func refused(error) bool { return false }

// OpenDirect is for Linux.
func OpenDirect(*os.File) (*os.File, error) {
	return nil, fmt.Errorf("there is no O_DIRECT on %s", runtime.GOOS)
}

func checkAccess(*os.File, bool) error { return nil }

// Reserve does nothing here.
func Reserve(*os.File, int64) error { return nil }

// CheckRoom does nothing here.
func CheckRoom(*os.File, int64) error { return nil }

func withFree(_ *os.File, err error) error { return err }

// cacheMap is nothing here.
type cacheMap struct{}

func mapCache(*os.File, int64) *cacheMap { return nil }

func (*cacheMap) resident(_, _ int64) bool { return false }
func (*cacheMap) close() error             { return nil }
