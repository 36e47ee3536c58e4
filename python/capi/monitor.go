package main

// #include "pinion.h"
import "C"

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/pinion-gpu/pinion/monitor"
	"github.com/pinion-gpu/pinion/monitor/local"
)

// offer is what pinion top finds of this process.
var offer struct {
	sync.Mutex
	stop func() // nil: nothing is offered
}

// others is what allocators of the process other than Pinion's have; nil: nothing.
var others atomic.Pointer[[]monitor.Foreign]

func init() {
	monitor.AddForeign(func() []monitor.Foreign {
		if list := others.Load(); list != nil {
			return *list
		}
		return nil
	})
}

// pinion_monitor_offer shows the snapshot of this process to the user's other
// programs, if it is not shown yet.
//
//export pinion_monitor_offer
func pinion_monitor_offer() (result C.int) {
	defer guard(&result)
	offer.Lock()
	defer offer.Unlock()
	if offer.stop != nil {
		return C.PINION_OK
	}
	stop, err := local.Offer(context.Background(), local.Options{})
	if err != nil {
		return fail(err)
	}
	offer.stop = stop
	return C.PINION_OK
}

// pinion_monitor_withdraw ends pinion_monitor_offer.
//
//export pinion_monitor_withdraw
func pinion_monitor_withdraw() (result C.int) {
	defer guard(&result)
	offer.Lock()
	defer offer.Unlock()
	if offer.stop != nil {
		offer.stop()
		offer.stop = nil
	}
	return C.PINION_OK
}

// pinion_monitor_snapshot tells monitor.Snapshot of this process: as JSON.
//
//export pinion_monitor_snapshot
func pinion_monitor_snapshot(out **C.char) (result C.int) {
	defer guard(&result)
	var s monitor.Snapshot
	elsewhere(func() { s = monitor.Take() })
	return tell(out, s)
}

// pinion_monitor_foreign sets what snapshots tell of allocators other than Pinion's:
// a list of monitor.Foreign as JSON, in the place of the last one.
//
//export pinion_monitor_foreign
func pinion_monitor_foreign(list *C.char, n C.int64_t) (result C.int) {
	defer guard(&result)
	var now []monitor.Foreign
	if err := parse(list, n, &now); err != nil {
		return fail(err)
	}
	others.Store(&now)
	return C.PINION_OK
}
