// Package all registers every backend with package device. Import it for its
// effect:
//
//	import _ "github.com/pinion-gpu/pinion/device/all"
package all

import (
	_ "github.com/pinion-gpu/pinion/device/cuda" // "cuda:0"
	_ "github.com/pinion-gpu/pinion/device/host" // "host"
)
