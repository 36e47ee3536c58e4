package numa

import (
	"errors"
	"math/bits"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/pinion-gpu/pinion/internal/pagemem"
)

// policy is the memory policy at b's start and the nodes it names.
func policy(t *testing.T, b []byte) (mode int32, nodes []int) {
	t.Helper()
	mask := make([]uint, 1024/bits.UintSize)
	_, _, e := unix.Syscall6(unix.SYS_GET_MEMPOLICY,
		uintptr(unsafe.Pointer(&mode)), uintptr(unsafe.Pointer(&mask[0])), 1024+1,
		uintptr(unsafe.Pointer(unsafe.SliceData(b))), unix.MPOL_F_ADDR, 0)
	if e != 0 {
		t.Skip("get_mempolicy: ", e)
	}
	for i := range 1024 {
		if mask[i/bits.UintSize]>>(i%bits.UintSize)&1 != 0 {
			nodes = append(nodes, i)
		}
	}
	return mode, nodes
}

func mapped(t *testing.T, n int64) []byte {
	t.Helper()
	b, err := pagemem.Map(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pagemem.Unmap(b) })
	return b
}

// The kernel has the policy for the bound pages, and for no others.
func TestBind(t *testing.T) {
	defer Fake(Node{ID: 0}, Node{ID: 1})()
	page := int(pagemem.PageSize())
	b := mapped(t, int64(3*page))
	if err := Bind(b[page:2*page], 0); err != nil {
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	for i, want := range []bool{false, true, false} {
		mode, nodes := policy(t, b[i*page:])
		if bound := mode == unix.MPOL_PREFERRED && slices.Equal(nodes, []int{0}); bound != want {
			t.Errorf("page %d: policy %d of nodes %v", i, mode, nodes)
		}
	}
	if err := pagemem.Populate(b, 1); err != nil {
		t.Error(err)
	}
}

// A node that the kernel refuses is an error, and the memory works all the
// same.
func TestBindRefused(t *testing.T) {
	const node = 1023 // the highest that a kernel can be built for
	if slices.ContainsFunc(system(), func(n Node) bool { return n.ID == node }) {
		t.Skip("a very large machine")
	}
	defer Fake(Node{ID: 0}, Node{ID: node})()
	b := mapped(t, 1)
	var refusal unix.Errno
	if err := Bind(b, node); !errors.As(err, &refusal) {
		t.Errorf("%v", err)
	}
	b[0] = 1
}

func affinity(t *testing.T) []int {
	t.Helper()
	set := unix.NewCPUSet(maxID)
	if err := unix.SchedGetaffinityDynamic(0, set); err != nil {
		t.Fatal(err)
	}
	var cpus []int
	for cpu := range maxID {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus
}

// split makes two nodes of the CPUs that this process has.
func split(t *testing.T) []Node {
	t.Helper()
	cpus := affinity(t)
	if len(cpus) < 2 {
		t.Skip("one CPU")
	}
	half := len(cpus) / 2
	return []Node{{ID: 0, CPUs: cpus[:half]}, {ID: 1, CPUs: cpus[half:]}, {ID: 2}, {ID: 3, CPUs: cpus}}
}

func TestEnter(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	nodes := split(t)
	defer Fake(nodes...)()
	all := affinity(t)
	for _, c := range []struct {
		node int
		want []int
	}{
		{0, nodes[0].CPUs}, {1, nodes[1].CPUs}, {2, all}, {3, all}, {4, all}, {-1, all},
	} {
		leave, err := Enter(c.node)
		if err != nil {
			t.Fatal(err)
		}
		if got := affinity(t); !slices.Equal(got, c.want) {
			t.Errorf("on node %d: CPUs %v, want %v", c.node, got, c.want)
		}
		leave()
		if got := affinity(t); !slices.Equal(got, all) {
			t.Fatalf("after node %d: CPUs %v, want %v", c.node, got, all)
		}
	}

	// One inside another.
	outer, err := Enter(0)
	if err != nil {
		t.Fatal(err)
	}
	inner, err := Enter(1)
	if err != nil {
		t.Fatal(err)
	}
	inner()
	if got := affinity(t); !slices.Equal(got, nodes[0].CPUs) {
		t.Errorf("back on node 0: CPUs %v", got)
	}
	outer()
	if got := affinity(t); !slices.Equal(got, all) {
		t.Errorf("after both: CPUs %v", got)
	}
}

// Inside, a goroutine stays on its thread; nobody else is confined, also not
// by threads that the runtime starts meanwhile.
func TestEnterConfinesOneThread(t *testing.T) {
	nodes := split(t)
	defer Fake(nodes...)()
	all := affinity(t)
	var group sync.WaitGroup
	for i := range 16 {
		group.Go(func() {
			if i%2 == 0 {
				if got := affinity(t); !slices.Equal(got, all) {
					t.Errorf("a bystander has CPUs %v", got)
				}
				return
			}
			node := i / 2 % 2
			leave, err := Enter(node)
			if err != nil {
				t.Error(err)
				return
			}
			defer leave()
			thread := unix.Gettid()
			for range 20 {
				group.Go(func() {
					if got := affinity(t); !slices.Equal(got, all) {
						t.Errorf("a child has CPUs %v", got)
					}
				})
				runtime.Gosched()
				if got := affinity(t); unix.Gettid() != thread || !slices.Equal(got, nodes[node].CPUs) {
					t.Errorf("thread %d, CPUs %v; want thread %d, CPUs %v", unix.Gettid(), got, thread, nodes[node].CPUs)
				}
			}
		})
	}
	group.Wait()
}

// CPUs that do not exist are refused, and nothing is left behind.
func TestEnterRefused(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	all := affinity(t)
	defer Fake(Node{ID: 0}, Node{ID: 1, CPUs: []int{maxID - 1}})()
	leave, err := Enter(1)
	if !errors.Is(err, unix.EINVAL) {
		t.Errorf("%v", err)
	}
	leave()
	if got := affinity(t); !slices.Equal(got, all) {
		t.Errorf("CPUs %v, want %v", got, all)
	}
}

// The nodes of this machine, whatever it is: each CPU of this process is on
// one of them.
func TestNodesOfThisMachine(t *testing.T) {
	if _, err := os.Stat("/sys/devices/system/node/online"); err != nil {
		t.Skip(err)
	}
	var cpus []int
	for _, n := range Nodes() {
		t.Logf("node %d: CPUs %v, %d MiB", n.ID, n.CPUs, n.MemoryBytes>>20)
		cpus = append(cpus, n.CPUs...)
	}
	slices.Sort(cpus)
	if want := affinity(t); !slices.Equal(cpus, want) {
		t.Errorf("CPUs %v, want %v", cpus, want)
	}
}
