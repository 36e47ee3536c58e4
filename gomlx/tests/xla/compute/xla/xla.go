// Package xla stands in for GoMLX's binding of XLA in its tests, and registers Pinion.
package xla

import _ "github.com/pinion-gpu/pinion/gomlx"

// AutoInstall does nothing: there is nothing to install.
func AutoInstall() error { return nil }
