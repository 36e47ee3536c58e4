package numa

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/pinion-gpu/pinion/internal/pagemem"
)

// Node is memory and the CPUs that are nearest to it.
type Node struct {
	ID          int
	CPUs        []int // that the process may use, ascending; none on a node of memory alone
	MemoryBytes int64 // in all; zero on a node of CPUs alone
}

// Nodes returns the machine's nodes by ascending ID, or none where the system
// does not tell. The caller must not change them.
func Nodes() []Node {
	if nodes := fake.Load(); nodes != nil {
		return *nodes
	}
	return system()
}

// Known reports whether node is one of several that the machine has, so that
// placement means something.
func Known(node int) bool { return find(node) != nil }

// Bind makes the pages of b, which must be whole, come from node. Pages that
// have been touched before stay where they are. When the node is full, others
// help out (MPOL_PREFERRED): MPOL_BIND would have the kernel kill a process
// while the machine still has memory.
func Bind(b []byte, node int) error {
	if !Known(node) {
		return nil
	}
	if !pagemem.Aligned(b) {
		return fmt.Errorf("numa: cannot bind %d bytes to node %d: not whole pages", len(b), node)
	}
	if err := prefer(b, node); err != nil {
		return fmt.Errorf("numa: bind %d bytes to node %d: %w", len(b), node, err)
	}
	return nil
}

// Enter moves the calling goroutine to the CPUs of node, and keeps it on one
// OS thread, until the same goroutine calls leave, once. The thread then has
// its old CPUs again; should the system refuse that, the goroutine keeps the
// thread, which ends with it, so that no other goroutine is confined. Threads
// that a C library starts meanwhile are confined as well, for good.
//
// With an error, and where there is nothing to do, the goroutine stays as it
// is. leave is never nil.
func Enter(node int) (leave func(), err error) {
	n := find(node)
	if n == nil || len(n.CPUs) == 0 {
		return func() {}, nil
	}
	leave, err = confine(n.CPUs)
	if err != nil {
		return func() {}, fmt.Errorf("numa: enter node %d: %w", node, err)
	}
	return leave, nil
}

// find returns the node with that ID if it is one of several, or nil.
func find(id int) *Node {
	nodes := Nodes()
	if len(nodes) < 2 {
		return nil
	}
	i := slices.IndexFunc(nodes, func(n Node) bool { return n.ID == id })
	if i < 0 {
		return nil
	}
	return &nodes[i]
}

var fake atomic.Pointer[[]Node]

// Fake makes the package believe in other nodes than the machine's, for
// tests, until restore is called. The kernel still knows better: it refuses
// memory of a node that does not exist.
func Fake(nodes ...Node) (restore func()) {
	old := fake.Swap(&nodes)
	return func() { fake.Store(old) }
}
