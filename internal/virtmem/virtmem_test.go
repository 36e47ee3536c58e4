package virtmem_test

import (
	"errors"
	"fmt"
	"runtime/debug"
	"testing"

	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/internal/virtmem"
)

func Example() {
	if !virtmem.Supported() {
		fmt.Println("7")
		return
	}
	page := pagemem.PageSize()
	space, _ := virtmem.Reserve(8 * page)
	store, _ := virtmem.NewStore("example")
	store.Map(space[:page], 5*page)
	space[0] = 7
	virtmem.Unmap(space[:page])
	store.Map(space[3*page:4*page], 5*page)
	fmt.Println(space[3*page])
	virtmem.Release(space)
	store.Close()
	// Output: 7
}

func need(t *testing.T) {
	t.Helper()
	if !virtmem.Supported() {
		if _, err := virtmem.Reserve(pagemem.PageSize()); !errors.Is(err, errors.ErrUnsupported) {
			t.Error(err)
		}
		t.Skip("not on this system")
	}
}

// faults reports whether touching the first byte of b is a fault.
func faults(b []byte) (fault bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { fault = recover() != nil }()
	b[0]++
	return
}

func TestStore(t *testing.T) {
	need(t)
	const n = 2 << 20
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	store, err := virtmem.NewStore("test")
	ok(err)
	space, err := virtmem.Reserve(1 << 40)
	ok(err)
	used := func() int64 {
		t.Helper()
		n, err := store.Used()
		ok(err)
		return n
	}
	if !faults(space[:n]) {
		t.Error("reserved addresses can be touched")
	}
	const far = virtmem.StoreBytes - 2*n
	ok(store.Map(space[:2*n], far))
	if faults(space) || !faults(space[2*n:]) {
		t.Error("not mapped, or too much")
	}
	if got := used(); got > n {
		t.Errorf("%d bytes used before most of it was written", got)
	}
	for i := range space[:2*n] {
		space[i] = byte(i/n + 1)
	}
	if got := used(); got != 2*n {
		t.Errorf("%d bytes used of %d", got, 2*n)
	}
	ok(virtmem.Unmap(space[:n]))
	if !faults(space) || space[n] != 2 {
		t.Error("not unmapped, or too much")
	}
	ok(store.Map(space[5*n:6*n], far))
	if space[5*n] != 1 || space[6*n-1] != 1 {
		t.Error("the content did not come along")
	}
	ok(store.Discard(far, n))
	if got := used(); got != n || space[n] != 2 {
		t.Errorf("%d bytes used, half discarded, and %d in the other", got, space[n])
	}
	ok(virtmem.Release(space))
	ok(store.Close())
	if err := store.Discard(0, n); err == nil {
		t.Error("discarded after Close")
	}
}

func TestReserveArguments(t *testing.T) {
	need(t)
	for _, n := range []int64{-1, 0, 1, 1<<62 + 1, 1 << 62} {
		if b, err := virtmem.Reserve(n); err == nil {
			t.Errorf("reserved %d bytes for %d", len(b), n)
		}
	}
	b, err := virtmem.Reserve(3 * pagemem.PageSize())
	if err != nil {
		t.Fatal(err)
	}
	if err := virtmem.Release(b); err != nil {
		t.Error(err)
	}
}
