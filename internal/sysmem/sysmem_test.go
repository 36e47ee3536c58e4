package sysmem

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
)

func Example() {
	budget := Available() / 4
	fmt.Println(budget <= Limit())
	// Output: true
}

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
)

const meminfo = `MemTotal:       65536000 kB
MemFree:         1000000 kB
MemAvailable:   33554432 kB
Buffers:           16384 kB
Cached:         30000000 kB
SwapCached:            0 kB
HugePages_Total:       0
`

func tree(files ...string) fs.FS {
	m := fstest.MapFS{}
	for i := 0; i < len(files); i += 2 {
		m[files[i]] = &fstest.MapFile{Data: []byte(files[i+1])}
	}
	return m
}

func TestMeminfo(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       memory
	}{
		{"modern", meminfo, memory{65536000 * kib, 32 * gib}},
		{"before 3.14", "MemTotal: 1000 kB\nMemFree: 100 kB\nBuffers: 20 kB\nCached: 3 kB\n", memory{1000 * kib, 123 * kib}},
		{"none left", "MemTotal: 1000 kB\nMemAvailable: 0 kB\nMemFree: 9 kB\n", memory{1000 * kib, 0}},
		{"more than all", "MemTotal: 1000 kB\nMemAvailable: 2000 kB\n", memory{1000 * kib, 1000 * kib}},
		{"negative", "MemTotal: -1 kB\nMemAvailable: -1 kB\n", memory{}},
		{"overflow", "MemTotal: 9223372036854775807 kB\nMemFree: 9223372036854775807 kB\nCached: 1 kB\n", memory{math.MaxInt64, math.MaxInt64}},
		{"empty", "", memory{}},
	} {
		if got := parseMeminfo(c.text); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestRead(t *testing.T) {
	const (
		mountV2 = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
		mountV1 = "30 23 0:27 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n" +
			"32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n" +
			"35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
		unlimitedV1 = "9223372036854771712\n"
	)
	machine := memory{65536000 * kib, 32 * gib}
	for _, c := range []struct {
		name  string
		files []string
		want  memory
	}{
		{"no groups", nil, machine},
		{"v2 without limits", []string{
			"proc/self/cgroup", "0::/user.slice/a.scope\n",
			"proc/self/mountinfo", mountV2,
			"sys/fs/cgroup/user.slice/a.scope/memory.max", "max\n",
			"sys/fs/cgroup/user.slice/a.scope/memory.current", "123\n",
		}, machine},
		{"v2 limit in the group", []string{
			"proc/self/cgroup", "0::/user.slice/a.scope\n",
			"proc/self/mountinfo", mountV2,
			"sys/fs/cgroup/user.slice/a.scope/memory.max", "8589934592\n",
			"sys/fs/cgroup/user.slice/a.scope/memory.high", "max\n",
			"sys/fs/cgroup/user.slice/a.scope/memory.current", "6442450944\n",
			"sys/fs/cgroup/user.slice/a.scope/memory.stat", "anon 1\nactive_file 1048576\ninactive_file 2097152\nslab_reclaimable 1048576\n",
		}, memory{8 * gib, 2*gib + 4*mib}},
		{"v2 limits above the group, each the smallest in one way", []string{
			"proc/self/cgroup", "0::/a/b/c\n",
			"proc/self/mountinfo", mountV2,
			"sys/fs/cgroup/a/memory.max", "1073741824\n",
			"sys/fs/cgroup/a/memory.current", "0\n",
			"sys/fs/cgroup/a/b/memory.high", "4294967296\n",
			"sys/fs/cgroup/a/b/memory.current", "4194304000\n",
			"sys/fs/cgroup/a/b/c/memory.max", "max\n",
		}, memory{gib, 4294967296 - 4194304000}},
		{"v2 limit larger than the machine", []string{
			"proc/self/cgroup", "0::/\n",
			"proc/self/mountinfo", mountV2,
			"sys/fs/cgroup/memory.max", "1099511627776\n",
		}, machine},
		{"v2 over its limit", []string{
			"proc/self/cgroup", "0::/\n",
			"proc/self/mountinfo", mountV2,
			"sys/fs/cgroup/memory.max", "1048576\n",
			"sys/fs/cgroup/memory.current", "2097152\n",
		}, memory{mib, 0}},
		{"v2 in a container with its own namespace", []string{
			"proc/self/cgroup", "0::/\n",
			"proc/self/mountinfo", mountV2,
			"sys/fs/cgroup/memory.max", "1073741824\n",
			"sys/fs/cgroup/memory.current", "1048576\n",
		}, memory{gib, gib - mib}},
		{"v2 group outside the namespace", []string{
			"proc/self/cgroup", "0::/../other\n",
			"proc/self/mountinfo", mountV2,
			"sys/fs/cgroup/memory.max", "1073741824\n",
		}, memory{gib, gib}},
		{"v1 in a container that sees its part of the tree", []string{
			"proc/self/cgroup", "9:name=systemd:/docker/abc\n4:cpu,memory:/docker/abc\n",
			"proc/self/mountinfo", "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup ro,cpu,memory\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648\n",
			"sys/fs/cgroup/memory/memory.usage_in_bytes", "1073741824\n",
			"sys/fs/cgroup/memory/memory.stat", "cache 5\nactive_file 5\ntotal_active_file 1048576\ntotal_inactive_file 1048576\n",
		}, memory{2 * gib, gib + 2*mib}},
		{"v1 chain", []string{
			"proc/self/cgroup", "4:memory:/slurm/job_1/step_0\n3:cpu:/\n0::/\n",
			"proc/self/mountinfo", mountV1,
			"sys/fs/cgroup/memory/slurm/job_1/step_0/memory.limit_in_bytes", unlimitedV1,
			"sys/fs/cgroup/memory/slurm/job_1/memory.limit_in_bytes", "4294967296\n",
			"sys/fs/cgroup/memory/slurm/job_1/memory.usage_in_bytes", "1073741824\n",
			"sys/fs/cgroup/memory/slurm/memory.limit_in_bytes", unlimitedV1,
			"sys/fs/cgroup/memory/memory.limit_in_bytes", unlimitedV1,
		}, memory{4 * gib, 3 * gib}},
		{"hybrid: v2 mounted without the memory controller", []string{
			"proc/self/cgroup", "4:memory:/x\n0::/x\n",
			"proc/self/mountinfo", mountV1 + "42 31 0:39 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
			"sys/fs/cgroup/memory/x/memory.limit_in_bytes", "1073741824\n",
			"sys/fs/cgroup/unified/x/cgroup.procs", "1\n",
		}, memory{gib, gib}},
		{"the mount that holds the group is not the first", []string{
			"proc/self/cgroup", "0::/a\n",
			"proc/self/mountinfo", "28 23 0:26 /b /mnt/b rw - cgroup2 cgroup2 rw\n" + mountV2,
			"mnt/b/memory.max", "1048576\n",
			"sys/fs/cgroup/a/memory.max", "1073741824\n",
		}, memory{gib, gib}},
		{"mount point with a blank", []string{
			"proc/self/cgroup", "0::/a\n",
			"proc/self/mountinfo", `28 23 0:26 / /mnt/c\040g rw - cgroup2 cgroup2 rw` + "\n",
			"mnt/c g/a/memory.max", "1073741824\n",
		}, memory{gib, gib}},
	} {
		root := tree(append([]string{"proc/meminfo", meminfo}, c.files...)...)
		if got := read(root); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestReadOfNothing(t *testing.T) {
	if got := read(tree()); got != (memory{}) {
		t.Errorf("%+v", got)
	}
	// A group's figures are better than none.
	got := read(tree(
		"proc/self/cgroup", "0::/\n",
		"proc/self/mountinfo", "1 1 0:1 / /cg rw - cgroup2 cgroup2 rw\n",
		"cg/memory.max", "1048576\n",
	))
	if got != (memory{mib, mib}) {
		t.Errorf("%+v", got)
	}
}

func TestParseMounts(t *testing.T) {
	got := parseMounts("22 27 0:21 / /proc rw,relatime - proc proc rw\n" +
		"35 31 0:32 /a /cg/memory rw shared:1 master:2 - cgroup cgroup rw,memory\n" +
		"36 31 0:32 / /short rw - cgroup2\n" +
		"no separator\n - cgroup2 cgroup2 rw\n")
	want := []mount{{"/a", "/cg/memory", "cgroup", []string{"rw", "memory"}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}

func TestThisMachine(t *testing.T) {
	limit, available := Limit(), Available()
	if runtime.GOOS == "linux" || runtime.GOOS == "darwin" || runtime.GOOS == "windows" {
		if limit < 16*mib || available <= 0 {
			t.Errorf("limit %d, available %d", limit, available)
		}
	}
	if available > limit {
		t.Errorf("available %d of %d", available, limit)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(meminfo, "0::/a/b\n", "29 23 0:26 / /cg rw - cgroup2 cgroup2 rw\n", "max\n", "5\n", "active_file 5\n")
	f.Add(meminfo, "4:memory:/../b\n", "29 23 0:26 /a cg rw - cgroup cgroup rw,memory\n", "100", "9", "")
	f.Fuzz(func(t *testing.T, meminfo, cgroup, mountinfo, limit, usage, stat string) {
		root := hostile{
			"proc/meminfo": meminfo, "proc/self/cgroup": cgroup, "proc/self/mountinfo": mountinfo,
			"limit": limit, "usage": usage, "memory.stat": stat,
		}
		m := read(root)
		if m.available < 0 || m.limit < 0 || m.available > m.limit {
			t.Errorf("%+v", m)
		}
		machine := parseMeminfo(meminfo)
		if machine.limit > 0 && (m.limit > machine.limit || m.available > machine.available) {
			t.Errorf("%+v is more than the machine's %+v", m, machine)
		}
	})
}

// hostile answers every path that is not of proc with the same group's files.
type hostile map[string]string

func (h hostile) Open(name string) (fs.File, error) {
	key := name
	if !strings.HasPrefix(name, "proc/") {
		switch name = name[strings.LastIndex(name, "/")+1:]; name {
		case "memory.max", "memory.high", "memory.limit_in_bytes":
			key = "limit"
		case "memory.current", "memory.usage_in_bytes":
			key = "usage"
		default:
			key = name
		}
	}
	text, ok := h[key]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return fstest.MapFS{"f": {Data: []byte(text)}}.Open("f")
}

func BenchmarkAvailable(b *testing.B) {
	for b.Loop() {
		Available()
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		m    memory
		n    int64
		fits bool
	}{
		{memory{}, 1 << 60, true}, // nothing is known
		{memory{limit: 100, available: 50}, 50, true},
		{memory{limit: 100, available: 50}, 51, false},
		{memory{limit: 100}, 1, false},
	} {
		if err := c.m.check(c.n); (err == nil) != c.fits || err != nil && !errors.Is(err, ErrMemory) {
			t.Errorf("%+v, %d bytes: %v", c.m, c.n, err)
		}
	}
}
