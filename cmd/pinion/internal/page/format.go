package page

import "fmt"

// Percent prints a fraction without decimals.
func Percent(fraction float64) string { return fmt.Sprintf("%.0f %%", 100*fraction) }
