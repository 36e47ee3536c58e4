package pagemem

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestCanLock(t *testing.T) {
	const (
		root    = "Name:\tx\nCapPrm:\t0000000000000000\nCapEff:\t000001ffffffffff\nCapBnd:\t0\n"
		lock    = "CapEff:\t0000000000004000\n"
		no      = "CapEff:\t000001ffffffbfff\n"
		hostMap = "         0          0 4294967295\n"
		userMap = "         0       1000          1\n"
	)
	for _, c := range []struct {
		name, status, uidMap string
		want                 bool
	}{
		{"root", root, hostMap, true},
		{"just the one", lock, hostMap, true},
		{"all but the one", no, hostMap, false},
		{"rootless container", root, userMap, false},
		{"empty", "", hostMap, false},
		{"no map", root, "", false},
		{"not a number", "CapEff:\tfoo\n", hostMap, false},
		{"not at a line's start", "Name:\tCapEff:\t4000\n", hostMap, false},
	} {
		if got := canLock(c.status, c.uidMap); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

func FuzzCanLock(f *testing.F) {
	f.Add("CapEff:\t0000000000004000\n", "0 0 4294967295\n")
	f.Add("CapEff:", "")
	f.Fuzz(func(t *testing.T, status, uidMap string) {
		if canLock(status, uidMap) && !(strings.Contains(status, "CapEff:") && strings.Contains(uidMap, "4294967295")) {
			t.Error("capability out of nothing")
		}
	})
}

func TestPopulateFillsPages(t *testing.T) {
	b, err := Map(2 * HugePage)
	if err != nil {
		t.Fatal(err)
	}
	defer Unmap(b)
	if err := Populate(b, 2); err != nil {
		t.Fatal(err)
	}
	resident := make([]byte, len(b)/int(PageSize()))
	if _, _, e := unix.Syscall(unix.SYS_MINCORE, address(b), uintptr(len(b)), address(resident)); e != 0 {
		t.Skip(e)
	}
	for i, r := range resident {
		if r&1 == 0 {
			t.Fatalf("page %d of %d is not there", i, len(resident))
		}
	}
}

// What is reserved for alignment is given back: the address space of the
// process is as large afterwards as before.
func TestMapLeavesNothingBehind(t *testing.T) {
	const size, times = 2*HugePage + 4096, 2000
	before := addressSpace(t)
	for range times {
		b, err := Map(size)
		if err != nil {
			t.Fatal(err)
		}
		if err := Unmap(b); err != nil {
			t.Fatal(err)
		}
	}
	// The Go runtime may have reserved an arena or two meanwhile.
	if grown := addressSpace(t) - before; grown > times*HugePage/4 {
		t.Errorf("%d mappings left %d bytes behind", times, grown)
	}
}

func addressSpace(t *testing.T) int64 {
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(statm))[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * PageSize()
}

func TestLockLimitOfThisProcess(t *testing.T) {
	limit, unlimited := LockLimit()
	out, err := exec.Command("sh", "-c", "ulimit -l").Output()
	if err != nil {
		t.Skip(err)
	}
	kib := strings.TrimSpace(string(out))
	if kib == "unlimited" {
		if !unlimited {
			t.Errorf("ulimit says unlimited, LockLimit %d bytes", limit)
		}
	} else if want, err := strconv.ParseInt(kib, 10, 64); err != nil || !unlimited && limit/1024 != want {
		t.Errorf("ulimit says %s KiB, LockLimit %d bytes", kib, limit)
	}
}
