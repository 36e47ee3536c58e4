// Package live lists the pools, engines, stores and loaders that are open in this
// process, so that a monitor finds them and the packages that make them need not
// know it. Adding and removing are rare; nothing is done in between.
package live

import (
	"reflect"
	"slices"
	"sync"
)

// set is what is open of one type.
type set[T any] struct {
	mu      sync.Mutex
	members []*T // in the order in which they were added
	gone    func(*T)
}

var sets sync.Map // reflect.Type of T -> *set[T]

func of[T any]() *set[T] {
	key := reflect.TypeFor[T]()
	s, ok := sets.Load(key)
	if !ok {
		s, _ = sets.LoadOrStore(key, new(set[T]))
	}
	return s.(*set[T])
}

// Add lists x, until [Remove]. The list keeps x reachable.
func Add[T any](x *T) {
	s := of[T]()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.members = append(s.members, x)
}

// Remove takes x off the list, if it is there. Whoever calls it holds no lock that
// x needs to tell its statistics: the function of [OnRemove] asks for them.
func Remove[T any](x *T) {
	s := of[T]()
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.members, x)
	if i < 0 {
		return
	}
	if s.gone != nil {
		s.gone(x)
	}
	s.members = slices.Delete(s.members, i, i+1)
}

// View calls fn with all that are listed. None is added or removed meanwhile; fn
// must not keep the slice.
func View[T any](fn func(all []*T)) {
	s := of[T]()
	s.mu.Lock()
	defer s.mu.Unlock()
	fn(s.members)
}

// OnRemove has fn called with each value that is about to leave the list. There is
// one such function a type, and it never runs beside a [View] of that type.
func OnRemove[T any](fn func(*T)) {
	s := of[T]()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = fn
}
