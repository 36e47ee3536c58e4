// Package all registers all formats of this module, so that [dataset.Open] opens
// them:
//
//	import _ "github.com/pinion-gpu/pinion/dataset/all"
package all

import (
	_ "github.com/pinion-gpu/pinion/dataset/csv"
	_ "github.com/pinion-gpu/pinion/dataset/jsonl"
	_ "github.com/pinion-gpu/pinion/dataset/nifti"
	_ "github.com/pinion-gpu/pinion/dataset/npy"
	_ "github.com/pinion-gpu/pinion/dataset/parquet"
	_ "github.com/pinion-gpu/pinion/dataset/photos"
	_ "github.com/pinion-gpu/pinion/dataset/points"
	_ "github.com/pinion-gpu/pinion/dataset/safetensors"
	_ "github.com/pinion-gpu/pinion/dataset/stream"
	_ "github.com/pinion-gpu/pinion/dataset/tar"
)
