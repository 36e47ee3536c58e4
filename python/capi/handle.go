package main

import "C"

import (
	"sync"
	"sync/atomic"
)

// serial is the last handle that was given. No two objects have the same one,
// whatever they are, so that a handle of another kind is found out.
var serial atomic.Uint64

// handles are the objects of a kind that the caller has. The zero value is none.
type handles[T any] struct{ objects sync.Map }

// add gives an object a handle.
func (h *handles[T]) add(object T) uint64 {
	id := serial.Add(1)
	h.objects.Store(id, object)
	return id
}

// get returns the object of a handle, and whether there is one.
func (h *handles[T]) get(id uint64) (object T, ok bool) {
	v, ok := h.objects.Load(id)
	if ok {
		object = v.(T)
	}
	return object, ok
}

// take is get, and ends the handle.
func (h *handles[T]) take(id uint64) (object T, ok bool) {
	v, ok := h.objects.LoadAndDelete(id)
	if ok {
		object = v.(T)
	}
	return object, ok
}
