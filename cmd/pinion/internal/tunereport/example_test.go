package tunereport_test

import (
	"fmt"
	"strings"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/tunereport"
	"github.com/pinion-gpu/pinion/tune"
)

func ExampleRender() {
	text := new(strings.Builder)
	err := tunereport.Render(text, &tunereport.Report{
		Dataset: "photos", Samples: "1024 samples of 224x224x3 u8", Device: "Some GPU",
		Result: &tune.Result{Best: tune.Setting{Workers: 8, Batch: 64, Prefetch: 2}, PerSecond: 6000},
	})
	fmt.Println(strings.Contains(text.String(), "num_workers=8"), err)
	// Output: true <nil>
}
