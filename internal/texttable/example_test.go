package texttable_test

import (
	"os"

	"github.com/pinion-gpu/pinion/internal/texttable"
)

func Example() {
	t := texttable.New("PATH", ">GB/s", "NOTE")
	t.Add("pinned", "55.3")
	t.Add("pageable", "8.10", "by the driver")
	t.Write(os.Stdout)
	// Output:
	// PATH      GB/s  NOTE
	// pinned    55.3
	// pageable  8.10  by the driver
}
