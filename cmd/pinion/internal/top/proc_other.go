//go:build !linux

package top

import "io/fs"

// proc is empty: these systems tell in other ways, which are left out.
var proc fs.FS = empty{}

type empty struct{}

func (empty) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}
