package units_test

import (
	"fmt"
	"time"

	"github.com/pinion-gpu/pinion/internal/units"
)

func Example() {
	fmt.Println(units.Bytes(256<<10), units.Bytes(3<<29), units.Bytes(1<<30+1))
	fmt.Println(units.Rate(50.3e9), units.Duration(12345*time.Nanosecond), units.Percent(0.947))
	fmt.Println(units.Count(1, "batch"), units.Count(3, "copy"), units.Grouped(1234567))
	// Output:
	// 256 KiB 1.50 GiB 1.00 GiB
	// 50.3 GB/s 12.3 µs 94.7 %
	// 1 batch 3 copies 1,234,567
}
