package numa_test

import (
	"fmt"
	"log"
	"testing"

	"github.com/pinion-gpu/pinion/internal/numa"
	"github.com/pinion-gpu/pinion/internal/pagemem"
)

func Example() {
	b, err := pagemem.Map(1 << 20)
	if err != nil {
		log.Fatal(err)
	}
	defer pagemem.Unmap(b)

	node := -1 // device.Info.NUMANode; here it is unknown
	if err := numa.Bind(b, node); err != nil {
		log.Print(err) // good to know, and no reason to stop
	}
	leave, err := numa.Enter(node)
	if err != nil {
		log.Print(err)
	}
	defer leave()
	fmt.Println("near a device:", numa.Known(node))
	// Output: near a device: false
}

func TestKnown(t *testing.T) {
	one, two := numa.Node{ID: 0}, numa.Node{ID: 2}
	for _, c := range []struct {
		nodes []numa.Node
		node  int
		want  bool
	}{
		{nil, 0, false}, {nil, -1, false},
		{[]numa.Node{one}, 0, false}, {[]numa.Node{two}, 2, false},
		{[]numa.Node{one, two}, 0, true}, {[]numa.Node{one, two}, 2, true},
		{[]numa.Node{one, two}, 1, false}, {[]numa.Node{one, two}, -1, false}, {[]numa.Node{one, two}, 3, false},
	} {
		restore := numa.Fake(c.nodes...)
		if got := numa.Known(c.node); got != c.want {
			t.Errorf("%d of %v: %t", c.node, c.nodes, got)
		}
		restore()
	}
}

// Where there is nothing to place, nothing is asked of the system, not even
// that the arguments make sense.
func TestNothingToDo(t *testing.T) {
	defer numa.Fake(numa.Node{ID: 0, CPUs: []int{0}})()
	for _, node := range []int{-1, 0, 1} {
		if err := numa.Bind(make([]byte, 3), node); err != nil {
			t.Errorf("node %d: %v", node, err)
		}
		leave, err := numa.Enter(node)
		if err != nil {
			t.Errorf("node %d: %v", node, err)
		}
		leave()
	}
}

func TestBindWantsWholePages(t *testing.T) {
	defer numa.Fake(numa.Node{ID: 0}, numa.Node{ID: 1})()
	b, err := pagemem.Map(2 * pagemem.PageSize())
	if err != nil {
		t.Fatal(err)
	}
	defer pagemem.Unmap(b)
	for _, bad := range [][]byte{nil, b[:0], b[1:], b[:len(b)-1]} {
		if numa.Bind(bad, 0) == nil {
			t.Errorf("%d bytes bound", len(bad))
		}
	}
}
