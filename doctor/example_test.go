package doctor_test

import (
	"context"
	"fmt"
	"log"

	"github.com/pinion-gpu/pinion/doctor"
)

// Two checks of the host, which need no process of their own.
func Example() {
	report, err := doctor.Run(context.Background(), doctor.Options{Only: []string{"wsl", "swap"}})
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range report.Checks {
		if f.Status == doctor.Warn || f.Status == doctor.Fail {
			log.Printf("%s: %s. %s", f.Name, f.Measured, f.Remedy)
		}
	}
	fmt.Println(len(report.Checks), "checks")
	// Output: 2 checks
}
