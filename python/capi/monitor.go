package main

// #include "pinion.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

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

// memory is the blocks of allocators other than Pinion's, and when somebody asked for
// them last: who has the dashboard open.
var memory struct {
	blocks atomic.Pointer[[]monitor.ForeignMemory]
	asked  atomic.Int64 // in nanoseconds since 1970
}

// watchedFor is how long after a question for the map somebody still looks at it. The
// page asks every 2.5 s.
const watchedFor = 10 * time.Second

func init() {
	monitor.AddForeignMemory(func() []monitor.ForeignMemory {
		memory.asked.Store(time.Now().UnixNano())
		if list := memory.blocks.Load(); list != nil {
			return *list
		}
		return nil
	})
}

// pinion_monitor_memory sets the blocks of allocators other than Pinion's: a list of
// monitor.ForeignMemory as JSON, in the place of the last one.
//
//export pinion_monitor_memory
func pinion_monitor_memory(list *C.char, n C.int64_t) (result C.int) {
	defer guard(&result)
	var now []monitor.ForeignMemory
	if err := parse(list, n, &now); err != nil {
		return fail(err)
	}
	for i := range now {
		if err := now[i].Check(); err != nil {
			return fail(err)
		}
	}
	memory.blocks.Store(&now)
	return C.PINION_OK
}

// pinion_monitor_watched tells whether somebody looks at the blocks: 1 or 0.
//
//export pinion_monitor_watched
func pinion_monitor_watched(yes *C.int32_t) (result C.int) {
	defer guard(&result)
	*yes = 0
	if at := memory.asked.Load(); at > 0 && time.Since(time.Unix(0, at)) < watchedFor {
		*yes = 1
	}
	return C.PINION_OK
}

// dashboard is the server of the dashboard of this process.
var dashboard struct {
	sync.Mutex
	server *http.Server // nil: there is none
	done   chan struct{}
}

// pinion_monitor_serve serves the dashboard of this process at a port of this
// machine, 0 for a free one, and tells its address.
//
//export pinion_monitor_serve
func pinion_monitor_serve(port C.int32_t, out **C.char) (result C.int) {
	defer guard(&result)
	dashboard.Lock()
	defer dashboard.Unlock()
	if dashboard.server != nil {
		return fail(errors.New("the dashboard of this process is served already"))
	}
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
	if err != nil {
		return fail(fmt.Errorf("the dashboard cannot be served: %w", err))
	}
	server, done := &http.Server{
		Handler: monitor.Handler(), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: log.New(io.Discard, "", 0), // of clients, which are not this process's matter
	}, make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // until it is closed
	}()
	dashboard.server, dashboard.done = server, done
	*out = text("http://" + listener.Addr().String() + "/")
	return C.PINION_OK
}

// pinion_monitor_unserve ends pinion_monitor_serve.
//
//export pinion_monitor_unserve
func pinion_monitor_unserve() (result C.int) {
	defer guard(&result)
	dashboard.Lock()
	defer dashboard.Unlock()
	if dashboard.server == nil {
		return C.PINION_OK
	}
	elsewhere(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if dashboard.server.Shutdown(ctx) != nil { // somebody still reads
			_ = dashboard.server.Close()
		}
		<-dashboard.done
	})
	dashboard.server = nil
	return C.PINION_OK
}
