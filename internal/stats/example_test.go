package stats_test

import (
	"fmt"
	"time"

	"github.com/pinion-gpu/pinion/internal/stats"
)

func Example() {
	median, least, most := stats.Spread([]time.Duration{30, 10, 20, 90})
	fmt.Println(median, least, most)
	// Output: 25ns 10ns 90ns
}
