package leaks_test

import (
	"errors"
	"fmt"

	"github.com/pinion-gpu/pinion/monitor/leaks"
)

func Example() {
	quit := make(chan struct{})
	defer close(quit)

	w := leaks.Start(leaks.Options{})
	defer w.Stop()
	for range 100 {
		go func() { <-quit }() // in each step one that nobody ends
		w.Step()
	}
	report := w.Report()
	for _, s := range report.Leaks {
		fmt.Println(s.ItemsPerStep, s.Kind, "in each step")
	}
	fmt.Println(errors.Is(report.Err(), leaks.ErrLeak))
	// Output:
	// 1 goroutine in each step
	// true
}
