//go:build unix

package mpi

import "github.com/ebitengine/purego"

// global shows the symbols of a loaded library to all that are loaded later.
func global(file string) error {
	_, err := purego.Dlopen(file, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	return err
}
