package cuda_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/cuda"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// openGPU opens the GPU that PINION_DEVICE names, or skips the test.
func openGPU(t *testing.T) *cuda.Device {
	t.Helper()
	if !strings.HasPrefix(os.Getenv("PINION_DEVICE"), "cuda") || os.Getenv("PINION_LIB_CUDA") != "" {
		t.Skip("for a GPU: set PINION_DEVICE=cuda:0")
	}
	dev, err := cuda.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	return dev
}

// Pages that went to the device are not the host's to touch until they are
// back; where they count is in the device's memory.
func TestManagedPages(t *testing.T) {
	dev := openGPU(t)
	if dev.Migration() != device.PageMigration {
		t.Skip("managed memory does not migrate by pages")
	}
	const n = 64 << 20
	before, err := dev.Memory()
	testkit.OK(t, err)
	p, b, err := dev.AllocManaged(n, device.ManagedOptions{})
	testkit.OK(t, err)
	s, err := dev.NewStream()
	testkit.OK(t, err)
	look := func(what string, want int64) {
		t.Helper()
		r, err := dev.Residency(p, n)
		testkit.OK(t, err)
		memory, err := dev.Memory()
		testkit.OK(t, err)
		t.Logf("%s: %+v; device memory in use grew by %d", what, r, before.FreeBytes-memory.FreeBytes)
		if r.HostBytes != want && r.HostBytes != -1 {
			t.Errorf("%s: the host can touch %d bytes, want %d", what, r.HostBytes, want)
		}
	}
	look("untouched", 0)
	for i := range b {
		b[i] = byte(i)
	}
	look("written by the host", n)
	testkit.OK(t, dev.Prefetch(s, p, n, device.OnDevice))
	testkit.OK(t, s.Synchronize())
	look("prefetched to the device", 0)
	for i := 0; i < n/4; i += 4096 {
		if b[i] != byte(i) {
			t.Fatalf("byte %d is %d", i, b[i])
		}
	}
	r, err := dev.Residency(p, n/4)
	testkit.OK(t, err)
	t.Logf("a quarter read by the host: %+v", r)
	if r.HostBytes != n/4 && r.HostBytes != -1 {
		t.Errorf("of a quarter that it read the host can touch %d bytes", r.HostBytes)
	}
	testkit.OK(t, dev.Prefetch(s, p, n, device.OnHost))
	testkit.OK(t, s.Synchronize())
	look("prefetched to the host", n)
	testkit.OK(t, dev.Advise(p, n, device.Advice{ReadMostly: true}))
	testkit.OK(t, dev.Prefetch(s, p, n, device.OnDevice))
	testkit.OK(t, s.Synchronize())
	look("read by both", n)
}

// What migrates as a whole cannot be prefetched or advised.
func TestFakeManagedWhole(t *testing.T) {
	inChild(t, "TestFakeManagedWholeChild", "PINION_LIB_CUDA="+buildFake(t), "PINION_LIB_NVML=off", "FAKECUDA_CONCURRENT=0")
}

func TestFakeManagedWholeChild(t *testing.T) {
	if os.Getenv("FAKECUDA_CONCURRENT") != "0" {
		t.Skip("a part of TestFakeManagedWhole")
	}
	dev, err := cuda.Open(0)
	testkit.OK(t, err)
	defer dev.Close()
	if dev.Migration() != device.WholeMigration || !dev.CanManage() {
		t.Fatalf("migration: %v", dev.Migration())
	}
	p, b, err := dev.AllocManaged(4096, device.ManagedOptions{})
	testkit.OK(t, err)
	s, err := dev.NewStream()
	testkit.OK(t, err)
	testkit.OK(t, s.Memset(p, 3, 4096))
	testkit.OK(t, s.Synchronize())
	if b[4095] != 3 {
		t.Error("the host does not see what the device wrote")
	}
	for what, err := range map[string]error{
		"prefetch": dev.Prefetch(s, p, 4096, device.OnDevice),
		"advice":   dev.Advise(p, 4096, device.Advice{}),
	} {
		if !errors.Is(err, device.ErrNotSupported) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Memory that another device takes of the same GPU, and managed memory that
// migrated there, count once each.
func TestFakeManagedRoom(t *testing.T) {
	inChild(t, "TestFakeManagedRoomChild", "PINION_LIB_CUDA="+buildFake(t), "PINION_LIB_NVML=off", "FAKECUDA_MEMORY=100000000", "MANAGED_ROOM=1")
}

func TestFakeManagedRoomChild(t *testing.T) {
	if os.Getenv("MANAGED_ROOM") == "" {
		t.Skip("a part of TestFakeManagedRoom")
	}
	const mb = 1000448 // a multiple of what the stand-in rounds to; 99 fit
	dev, err := cuda.Open(0)
	testkit.OK(t, err)
	defer dev.Close()
	other, err := cuda.Open(0)
	testkit.OK(t, err)
	defer other.Close()
	s, err := dev.NewStream()
	testkit.OK(t, err)
	manage := func(n int64, fits bool) device.Ptr {
		t.Helper()
		p, _, err := dev.AllocManaged(n*mb, device.ManagedOptions{})
		if fits != (err == nil) || err != nil && !errors.Is(err, device.ErrOutOfMemory) {
			t.Fatalf("%d MB: %v", n, err)
		}
		return p
	}
	theirs, err := other.Alloc(10 * mb)
	testkit.OK(t, err)
	manage(90, false)
	first := manage(40, true)
	manage(50, false)
	testkit.OK(t, dev.Prefetch(s, first, 40*mb, device.OnDevice)) // it is in use now, and no less managed
	testkit.OK(t, s.Synchronize())
	manage(50, false)
	second := manage(49, true)
	testkit.OK(t, dev.Free(second))
	mine, err := dev.Alloc(20 * mb)
	testkit.OK(t, err)
	manage(30, false)
	third := manage(29, true)
	testkit.OK(t, dev.Free(third))
	testkit.OK(t, dev.Free(mine))
	_, err = other.Alloc(30 * mb)
	testkit.OK(t, err)
	manage(20, false) // 40 managed and 40 others': in use are 80, so all of it is on the device
	manage(19, true)
	testkit.OK(t, other.Free(theirs))
}

// What is managed and on the device counts once against the room for more, but
// for what the driver keeps for itself.
func TestManagedRoomOnDevice(t *testing.T) {
	dev := openGPU(t)
	if dev.Migration() != device.PageMigration {
		t.Skip("managed memory does not migrate by pages")
	}
	s, err := dev.NewStream()
	testkit.OK(t, err)
	before, err := dev.Memory()
	testkit.OK(t, err)
	var held int64
	for n := int64(64 << 20); held+n < before.FreeBytes/8 && n <= 4<<30; n *= 4 {
		p, _, err := dev.AllocManaged(n, device.ManagedOptions{})
		testkit.OK(t, err)
		testkit.OK(t, dev.Prefetch(s, p, n, device.OnDevice))
		testkit.OK(t, s.Synchronize())
		held += n
		now, err := dev.Memory()
		testkit.OK(t, err)
		t.Logf("%d MiB prefetched to the device: %d MiB more are in use", held>>20, (before.FreeBytes-now.FreeBytes)>>20)
	}
	const spare = 1 << 30
	q, _, err := dev.AllocManaged(before.FreeBytes-held-spare, device.ManagedOptions{}) // and never touched
	testkit.OK(t, err)
	_, _, err = dev.AllocManaged(2*spare, device.ManagedOptions{})
	testkit.WantError(t, "more than is left", err, device.ErrOutOfMemory, "of managed memory would be more than the device holds")
	t.Log(err)
	testkit.OK(t, dev.Free(q))
}
