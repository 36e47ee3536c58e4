//go:build !linux

package main

import (
	"errors"
	"os"
)

func dropPages(*os.File) error { return errors.ErrUnsupported }
