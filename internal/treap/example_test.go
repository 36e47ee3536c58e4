package treap_test

import (
	"fmt"

	"github.com/pinion-gpu/pinion/internal/treap"
)

type block struct {
	name string
	node treap.Node[block]
}

func Example() {
	var free treap.Set[block]
	small, large := &block{name: "small"}, &block{name: "large"}
	free.Insert(&large.node, large, 1<<20, 0x1000)
	free.Insert(&small.node, small, 4096, 0x200000)
	fmt.Println(free.AtLeast(1000).name, free.AtLeast(5000).name, free.AtLeast(2<<20) == nil)
	free.Remove(&small.node)
	fmt.Println(free.AtLeast(1000).name)
	// Output:
	// small large true
	// large
}
