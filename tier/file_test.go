package tier_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/tier"
)

// fileOptions are tiers that a dozen arrays of a MiB go through.
func fileOptions(t testing.TB) tier.Options {
	return tier.Options{DeviceBytes: 16 * mib, HostBytes: 16 * mib, Files: tier.Files{Folders: []string{t.TempDir()}, Bytes: 64 * mib}}
}

// A disk that is full, or broken, is an error that loses nothing; when it works
// again, so does the store.
func TestDiskFails(t *testing.T) {
	f := open(t, fileOptions(t))
	var writes, reads atomic.Int64
	f.store.FailFiles(&writes, &reads, syscall.ENOSPC)
	var arrays []*tier.Array
	for i := range 48 {
		a := f.array(fmt.Sprint(i), mib)
		testkit.OK(t, a.WriteAt(ctx, bytes.Repeat([]byte{byte(i)}, mib), 0))
		arrays = append(arrays, a)
	}
	check := func(want error) (failed int) {
		for i, a := range arrays {
			got := make([]byte, mib)
			err := a.ReadAt(ctx, got, 0)
			if err == nil && !bytes.Equal(got, bytes.Repeat([]byte{byte(i)}, mib)) {
				t.Fatalf("array %d: %d", i, got[0])
			}
			if err != nil {
				if want == nil || !errors.Is(err, want) {
					t.Fatal(err)
				}
				failed++
			}
		}
		return failed
	}
	if s := f.store.Stats(); s.SavedBytes < 16*mib {
		t.Errorf("%+v", s)
	}
	check(nil)
	reads.Store(1)
	if check(syscall.ENOSPC) == 0 {
		t.Error("no read failed")
	}
	reads.Store(0)
	writes.Store(1)
	failed := 0
	for i, a := range arrays { // dirty arrays have to go down
		l, err := f.store.Use(ctx, f.stream, tier.Overwrite(a))
		if err != nil {
			if !errors.Is(err, syscall.ENOSPC) || !errors.Is(err, tier.ErrNoRoom) {
				t.Fatal(err)
			}
			failed++
			continue
		}
		testkit.OK(t, f.stream.Memset(l.Ptr(a), byte(i), mib))
		testkit.OK(t, l.Release())
	}
	if failed == 0 {
		t.Error("no write failed")
	}
	writes.Store(0)
	check(nil)
}

func TestBadFolders(t *testing.T) {
	dev := devicetest.Open(t)
	for name, files := range map[string]tier.Files{
		"no bytes":    {Folders: []string{t.TempDir()}},
		"no folder":   {Folders: []string{filepath.Join(t.TempDir(), "none")}, Bytes: mib},
		"a file":      {Folders: []string{testkit.WriteFile(t, "", t.TempDir(), "file")}, Bytes: mib},
		"a full disk": {Folders: []string{t.TempDir()}, Bytes: 1 << 60},
	} {
		s, err := tier.New(dev, tier.Options{DeviceBytes: mib, HostBytes: mib, Files: files})
		if err == nil {
			t.Errorf("%s: no error", name)
			testkit.OK(t, s.Close())
		}
		for _, f := range files.Folders {
			if left, _ := filepath.Glob(filepath.Join(f, "*")); len(left) > 0 {
				t.Errorf("%s: left behind: %v", name, left)
			}
		}
	}
}

// Without host memory nothing could go to the files.
func TestFilesWithoutHost(t *testing.T) {
	for _, bytes := range []int64{-1, 100} {
		_, err := tier.New(devicetest.Open(t), tier.Options{DeviceBytes: mib, HostBytes: bytes, Files: tier.Files{Folders: []string{t.TempDir()}, Bytes: mib}})
		testkit.WantError(t, "files alone", err, device.ErrArgument, "host memory")
	}
}

// An array that host memory cannot hold is refused: it could never leave the device.
func TestTooLargeForHost(t *testing.T) {
	f := open(t, tier.Options{DeviceBytes: 64 * mib, HostBytes: 16 * mib, Files: tier.Files{Folders: []string{t.TempDir()}, Bytes: 64 * mib}})
	_, err := f.store.NewArray("x", 17*mib)
	testkit.WantError(t, "too large", err, tier.ErrNoRoom, "in host memory needs 17 MiB")
}

// A process that is killed in the middle of a spill leaves no file behind.
func TestKilledInSpill(t *testing.T) {
	if dir := os.Getenv("PINION_TEST_TIER"); dir != "" {
		dev, err := device.Open("host")
		testkit.OK(t, err)
		o := fileOptions(t)
		o.Files.Folders = []string{dir}
		store, err := tier.New(dev, o)
		testkit.OK(t, err)
		for i := range 60 {
			a, err := store.NewArray("", mib)
			testkit.OK(t, err)
			testkit.OK(t, a.WriteAt(ctx, make([]byte, mib), 0))
			if i > 40 && store.Stats().SavedBytes > 0 {
				self, err := os.FindProcess(os.Getpid())
				testkit.OK(t, err)
				testkit.OK(t, self.Kill())
				select {}
			}
		}
		t.Fatal("nothing was spilled")
	}
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledInSpill$")
	cmd.Env = append(os.Environ(), "PINION_TEST_TIER="+dir)
	if out, err := cmd.CombinedOutput(); err == nil || len(out) > 0 {
		t.Fatalf("the child was not killed: %v\n%s", err, out)
	}
	o := fileOptions(t)
	o.Files.Folders = []string{dir}
	open(t, o) // removes what is stale
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
