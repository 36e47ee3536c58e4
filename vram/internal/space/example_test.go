package space_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/host"
	"github.com/pinion-gpu/pinion/vram/internal/space"
)

func Example() {
	const mib = 1 << 20
	dev, err := host.Open(1 << 30)
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	var ledger space.Ledger
	s := space.New(space.Config{Device: dev, Most: 64 * mib, Ledger: &ledger})
	defer s.Close()

	b, err := s.Grow(48*mib, nil, 64*mib)
	if err != nil {
		log.Fatal(err)
	}
	_, err = s.Grow(48*mib, nil, 64*mib)
	fmt.Println(errors.Is(err, space.ErrBudget), space.Short(err), ledger.Current()/mib)

	one, other := &space.Owner{ID: 1}, &space.Owner{ID: 2}
	s.Give(b, one, 7)
	theirs, _ := s.Fit(40*mib, other, false)
	s.Settle(one, 7)
	idle, _ := s.Fit(40*mib, other, false)
	fmt.Println(theirs == nil, idle.Bytes()/mib, s.Largest()/mib)

	s.Give(idle, nil, 0)
	freed, err := s.Trim()
	fmt.Println(freed/mib, err, errors.Is(err, device.ErrOutOfMemory))
	// Output:
	// true true 48
	// true 40 8
	// 48 <nil> false
}
