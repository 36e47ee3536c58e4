//go:build !linux

package main

import (
	"errors"
	"fmt"
)

func stayOn(core int) error { return fmt.Errorf("core %d: %w", core, errors.ErrUnsupported) }
