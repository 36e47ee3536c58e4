//go:build !unix && !windows

package pagemem

import "errors"

func mapPages(int) ([]byte, error) { return nil, errors.ErrUnsupported }
func unmapPages([]byte) error      { return errors.ErrUnsupported }
func lockPages([]byte) error       { return errors.ErrUnsupported }
func unlockPages([]byte) error     { return errors.ErrUnsupported }
func lockLimit() (int64, bool)     { return 0, false }
