package main

// #include "pinion.h"
import "C"

import (
	"context"
	"time"
)

// task is work that may take long, which the caller waits for in short calls, so
// that Python sees to its signals meanwhile.
type task struct {
	cancel context.CancelFunc
	undo   func(value uint64) // of a result that nobody wants any more; may be nil
	borrow *borrow            // what it gets memory by; nil: it needs none of the caller's
	done   chan struct{}      // closed when what follows is there
	value  uint64
	err    error
	code   C.int // in place of err: of a panic
	text   string
}

var tasks handles[*task]

// start runs fn as a task and gives the caller its handle. What fn returns
// pinion_task_wait gives: a handle, mostly. If the caller gives the task up, the
// context ends, and undo gets the value, should there be one.
func start(handle *C.uint64_t, undo func(value uint64), fn func(ctx context.Context) (uint64, error)) C.int {
	return startWith(nil, handle, undo, fn)
}

// startWith is start for a task that needs memory of the caller's.
func startWith(from *borrow, handle *C.uint64_t, undo func(value uint64), fn func(ctx context.Context) (uint64, error)) C.int {
	ctx, cancel := context.WithCancel(context.Background())
	t := &task{cancel: cancel, undo: undo, borrow: from, done: make(chan struct{})}
	go func() {
		defer close(t.done)
		defer cancel()
		defer func() { t.code, t.text = recovered(recover()) }()
		t.value, t.err = fn(ctx)
	}()
	*handle = C.uint64_t(tasks.add(t))
	return C.PINION_OK
}

// elsewhere calls fn in another thread than the caller's, and waits for it. A
// panic of fn becomes the caller's.
func elsewhere(fn func()) {
	done := make(chan any)
	go func() {
		defer func() { done <- recover() }()
		fn()
	}()
	if r := <-done; r != nil {
		panic(r)
	}
}

// pnTaskWait is pinion_task_wait.
//
//export pnTaskWait
func pnTaskWait(handle C.uint64_t, milliseconds C.int32_t, value *C.uint64_t) (result C.int) {
	defer guard(&result)
	t, ok := tasks.get(uint64(handle))
	if !ok {
		return closed("the task")
	}
	select {
	case <-t.done:
	default:
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(milliseconds)*time.Millisecond)
		defer cancel()
		if t.borrow != nil {
			if !t.borrow.watch(cancel) {
				return C.PINION_MEMORY
			}
			defer t.borrow.unwatch()
		}
		select {
		case <-t.done:
		case <-ctx.Done():
			if t.borrow != nil && t.borrow.wanted() {
				return C.PINION_MEMORY
			}
			return C.PINION_WAIT
		}
	}
	if _, ok := tasks.take(uint64(handle)); !ok {
		return closed("the task")
	}
	if t.code != C.PINION_OK {
		return note(t.code, t.text, "")
	}
	*value = C.uint64_t(t.value)
	return fail(t.err)
}

// pinion_task_cancel gives a task up, without waiting for its end.
//
//export pinion_task_cancel
func pinion_task_cancel(handle C.uint64_t) (result C.int) {
	defer guard(&result)
	t, ok := tasks.take(uint64(handle))
	if !ok {
		return C.PINION_OK
	}
	t.cancel()
	if t.undo != nil {
		go func() {
			<-t.done
			if t.err == nil && t.code == C.PINION_OK {
				t.undo(t.value)
			}
		}()
	}
	return C.PINION_OK
}
