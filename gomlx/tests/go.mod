module github.com/pinion-gpu/pinion/gomlx/tests

go 1.26.5

require (
	github.com/gomlx/compute v0.1.3
	github.com/gomlx/gomlx v0.28.2
	github.com/pinion-gpu/pinion v0.0.0
	github.com/pinion-gpu/pinion/gomlx v0.0.0
)

require (
	github.com/davecgh/go-spew v1.1.2-0.20180830191138-d8f796af33cc // indirect
	github.com/dustin/go-humanize v1.1.0 // indirect
	github.com/ebitengine/purego v0.11.3 // indirect
	github.com/go-logr/logr v1.4.3 // indirect
	github.com/gomlx/go-xla v0.4.1 // indirect
	github.com/google/go-cmp v0.7.0 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	github.com/pmezard/go-difflib v1.0.1-0.20181226105442-5d4384ee4fb2 // indirect
	github.com/rivo/uniseg v0.4.7 // indirect
	github.com/stretchr/testify v1.11.1 // indirect
	golang.org/x/exp v0.0.0-20260410095643-746e56fc9e2f // indirect
	golang.org/x/sys v0.49.0 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
	k8s.io/klog/v2 v2.140.0 // indirect
)

replace (
	github.com/gomlx/go-xla => ./xla
	github.com/pinion-gpu/pinion => ../..
	github.com/pinion-gpu/pinion/gomlx => ..
)
