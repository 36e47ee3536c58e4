package linkreport_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/linkbench"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/linkreport"
	"github.com/pinion-gpu/pinion/device"
)

func ExampleRender() {
	page := new(strings.Builder)
	err := linkreport.Render(page, &linkreport.Report{
		MeasuredAt: "2000-01-02T03:04:05Z",
		Device:     device.Info{Name: "Some GPU"},
		Opened:     200 * time.Millisecond,
		Bench: linkbench.Report{Size: 1 << 30, Repeats: 7, Bulk: []linkbench.Bulk{
			{Path: "pageable", Direction: "h2d", Median: 7e9, Least: 6e9, Most: 8e9},
		}},
	})
	fmt.Println(strings.Contains(page.String(), "Some GPU"), err)
	// Output: true <nil>
}
