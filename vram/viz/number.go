package viz

import (
	"encoding/json"
	"fmt"
	"time"
)

// micros is d as a number of microseconds, to the nanosecond.
func micros(d time.Duration) json.Number { return decimal(d, time.Microsecond, 3) }

// seconds is d as a number of seconds, to the nanosecond.
func seconds(d time.Duration) json.Number { return decimal(d, time.Second, 9) }

// decimal is d in units of that many digits of nanoseconds.
func decimal(d, unit time.Duration, digits int) json.Number {
	sign := ""
	if d < 0 {
		sign = "-"
	}
	return json.Number(fmt.Sprintf("%s%d.%0*d", sign, (d / unit).Abs(), digits, (d % unit).Abs()))
}
