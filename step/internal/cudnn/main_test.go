package cudnn_test

import (
	"os"
	"testing"

	_ "github.com/pinion-gpu/pinion/device/all"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// standIns take the place of the driver and of cuDNN, unless PINION_DEVICE names a
// device.
var standIns = testkit.StandIns{Libraries: []string{"cudnn"},
	Sources: []string{"testdata/fakecudnn/fakecudnn.c", "../../../device/cuda/testdata/fakecuda/fakecuda.c"}}

func TestMain(m *testing.M) { os.Exit(standIns.Run(m)) }
