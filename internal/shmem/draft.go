package shmem

import "os"

// Draft is a file that does not have its name yet. The caller owns File and
// closes it, whether it is published or not.
type Draft struct {
	File *os.File
	temp string // its name until then; empty: none
}

// Publish gives the file its name, at once and whole. It fails with
// [io/fs.ErrExist] when the name is taken; then it may be called again.
func (d *Draft) Publish(path string) error {
	if d.temp == "" {
		return link(d.File, path)
	}
	if err := os.Link(d.temp, path); err != nil {
		return err
	}
	return os.Remove(d.temp)
}

// Discard gives up a file that was not published: nothing but File is left.
func (d *Draft) Discard() error {
	if d.temp == "" {
		return nil
	}
	return os.Remove(d.temp)
}
