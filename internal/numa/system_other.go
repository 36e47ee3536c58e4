//go:build !linux

package numa

import "errors"

func system() []Node { return nil }

func prefer([]byte, int) error      { return errors.ErrUnsupported }
func confine([]int) (func(), error) { return nil, errors.ErrUnsupported }
