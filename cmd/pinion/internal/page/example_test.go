package page_test

import (
	"fmt"
	"os"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/page"
	"github.com/pinion-gpu/pinion/internal/plot"
)

func ExampleRender() {
	t := page.Parse("{{template \"legend\" .}}\n")
	s := plot.Series{ID: "pinned", Name: "pinned", About: "page-locked memory", Mark: "circle"}
	row := page.Legend(s)
	row.Mark = "" // an SVG
	if err := page.Render(os.Stdout, t, []page.LegendRow{row}); err != nil {
		fmt.Println(err)
	}
	// Output: <ul class="legend"><li><span><b>pinned</b> page-locked memory</span></li></ul>
}
