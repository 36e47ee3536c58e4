package pinned

import (
	"runtime"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/numa"
)

// onNode is a device that hangs on a NUMA node.
type onNode struct {
	*fakeDevice
	node int
}

func (d onNode) Info() device.Info {
	info := d.fakeDevice.Info()
	info.NUMANode = d.node
	return info
}

func TestNUMANode(t *testing.T) {
	one, other := numa.Node{ID: 0}, numa.Node{ID: 1}
	for _, c := range []struct {
		name  string
		nodes []numa.Node
		node  int // of the device
		any   bool
		want  int
	}{
		{"no sysfs", nil, 0, false, -1},
		{"one node", []numa.Node{one}, 0, false, -1},
		{"two nodes", []numa.Node{one, other}, 1, false, 1},
		{"the first node", []numa.Node{one, other}, 0, false, 0},
		{"left to the system", []numa.Node{one, other}, 0, true, -1},
		{"unknown", []numa.Node{one, other}, -1, false, -1},
		{"no such node", []numa.Node{one, other}, 2, false, -1},
	} {
		restore := numa.Fake(c.nodes...)
		p, err := NewPool(onNode{newFake(), c.node}, Options{Budget: mib, AnyNode: c.any})
		restore()
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Stats().NUMANode; got != c.want {
			t.Errorf("%s: node %d, want %d", c.name, got, c.want)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A system that places nothing where it should makes a pool of ordinary
// segments, and a reason.
func TestNUMARefused(t *testing.T) {
	// No machine has that many nodes. Other systems than Linux refuse any.
	const node = 1023
	defer numa.Fake(numa.Node{ID: 0}, numa.Node{ID: node})()
	dev := onNode{newFake(), node}
	for _, o := range []Options{{}, {AllowPageable: true}, {AnyNode: true}} {
		o.Budget, o.SegmentBytes, o.ShrinkAfter = 8*mib, mib, -1
		if o.AllowPageable {
			dev.pinLimit = 1
		} else {
			dev.pinLimit = 0
		}
		p, err := NewPool(dev, o)
		if err != nil {
			t.Fatal(err)
		}
		b := mustAlloc(t, p, mib)
		b.Bytes()[0] = 1
		if b.Pinned() == o.AllowPageable {
			t.Errorf("%+v: pinned %t", o, b.Pinned())
		}
		if got := p.Stats().NUMAError; strings.Contains(got, "node 1023") == o.AnyNode {
			t.Errorf("%+v: %q", o, got)
		}
		mustFree(t, b)
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

// What the driver allocates, it allocates on a thread of the node.
func TestNUMAOfDriverMemory(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("no placement here")
	}
	defer numa.Fake(numa.Node{ID: 0}, numa.Node{ID: 1, CPUs: []int{8191}})()
	dev := &writeCombining{fakeDevice: newFake(), made: map[*byte]int64{}}
	for node, want := range map[int]string{0: "", 1: "enter node 1"} {
		p, err := NewPool(writeCombiningOnNode{dev, node}, Options{Budget: mib, Flags: device.PinWriteCombined})
		if err != nil {
			t.Fatal(err)
		}
		b := mustAlloc(t, p, 10)
		if got := p.Stats().NUMAError; !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("node %d: %q", node, got)
		}
		if len(dev.made) != 1 {
			t.Errorf("%d made by the driver", len(dev.made))
		}
		mustFree(t, b)
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

type writeCombiningOnNode struct {
	*writeCombining
	node int
}

func (d writeCombiningOnNode) Info() device.Info {
	return onNode{d.fakeDevice, d.node}.Info()
}
