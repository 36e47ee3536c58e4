package cusparselt

import (
	"os"
	"testing"

	_ "github.com/pinion-gpu/pinion/device/all"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// standIns take the place of the driver, of cuSPARSELt and of cuBLASLt, unless
// PINION_DEVICE names a device.
var standIns = testkit.StandIns{Libraries: []string{"cusparseLt", "cublasLt"},
	Sources: []string{"testdata/fakecusparselt/fakecusparselt.c", "../cublaslt/testdata/fakecublaslt/fakecublaslt.c",
		"../../device/cuda/testdata/fakecuda/fakecuda.c"}}

func TestMain(m *testing.M) { os.Exit(standIns.Run(m)) }
