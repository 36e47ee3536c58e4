//go:build !linux

package virtmem

import "errors"

// StoreBytes is the size of a store.
const StoreBytes = 1 << 60

// Store is for Linux only.
type Store struct{}

// Supported reports that there is none of this here.
func Supported() bool { return false }

// Reserve is for Linux only.
func Reserve(int64) ([]byte, error) { return nil, errors.ErrUnsupported }

// Release is for Linux only.
func Release([]byte) error { return errors.ErrUnsupported }

// NewStore is for Linux only.
func NewStore(string) (*Store, error) { return nil, errors.ErrUnsupported }

// Close is for Linux only.
func (*Store) Close() error { return errors.ErrUnsupported }

// Map is for Linux only.
func (*Store) Map([]byte, int64) error { return errors.ErrUnsupported }

// Unmap is for Linux only.
func Unmap([]byte) error { return errors.ErrUnsupported }

// Discard is for Linux only.
func (*Store) Discard(int64, int64) error { return errors.ErrUnsupported }

// Used is for Linux only.
func (*Store) Used() (int64, error) { return 0, errors.ErrUnsupported }
