module github.com/pinion-gpu/pinion/cmd/pinion/pinion-train

go 1.26.5

require (
	github.com/gomlx/compute v0.1.3
	github.com/gomlx/gomlx v0.28.2
	github.com/pinion-gpu/pinion v0.0.0
	github.com/pinion-gpu/pinion/gomlx v0.0.0
	github.com/spf13/cobra v1.10.2
)

require (
	github.com/dustin/go-humanize v1.1.0 // indirect
	github.com/ebitengine/purego v0.11.3 // indirect
	github.com/go-logr/logr v1.4.3 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	github.com/rivo/uniseg v0.4.7 // indirect
	github.com/spf13/pflag v1.0.9 // indirect
	golang.org/x/exp v0.0.0-20260410095643-746e56fc9e2f // indirect
	golang.org/x/image v0.47.0 // indirect
	golang.org/x/sync v0.22.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/term v0.47.0 // indirect
	k8s.io/klog/v2 v2.140.0 // indirect
)

replace (
	github.com/pinion-gpu/pinion => ../../..
	github.com/pinion-gpu/pinion/gomlx => ../../../gomlx
)
