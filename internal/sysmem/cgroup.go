package sysmem

import (
	"io"
	"io/fs"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
)

// controller names the files of one version of the memory controller.
type controller struct {
	fsType string // of the mount, in mountinfo
	option string // a super option that the mount must have, or ""
	limits []string
	usage  string
	cache  []string // counts in memory.stat of what can be dropped on demand
}

var (
	// Past memory.high a group is not killed but slowed to a crawl, so it
	// counts as a limit.
	v2 = controller{
		fsType: "cgroup2",
		limits: []string{"memory.max", "memory.high"},
		usage:  "memory.current",
		cache:  []string{"active_file", "inactive_file", "slab_reclaimable"},
	}
	// The total_ counts include the groups below, as the usage does.
	v1 = controller{
		fsType: "cgroup",
		option: "memory",
		limits: []string{"memory.limit_in_bytes"},
		usage:  "memory.usage_in_bytes",
		cache:  []string{"total_active_file", "total_inactive_file"},
	}
)

// read gives the memory that the process may use, from a file system rooted
// at / with proc and the control groups in it. A file that is missing or
// makes no sense limits nothing.
func read(root fs.FS) memory {
	m := parseMeminfo(readFile(root, "proc/meminfo"))
	groups := parseGroups(readFile(root, "proc/self/cgroup"))
	mounts := parseMounts(readFile(root, "proc/self/mountinfo"))
	// A machine in hybrid mode mounts both; the controller is in one of them.
	for _, c := range []controller{v2, v1} {
		group, ok := groups[c.option]
		if !ok {
			continue
		}
		for _, dir := range dirs(group, c.fsType, c.option, mounts) {
			m = m.within(c.read(root, dir))
		}
	}
	return m
}

// Of is Available and Limit of a system whose file system, with proc and the
// control groups in it, is root.
func Of(root fs.FS) (available, limit int64) {
	m := read(root)
	return m.available, m.limit
}

// within lowers m to what the group leaves; a group without a limit has limit 0.
func (m memory) within(group memory) memory {
	if group.limit <= 0 {
		return m
	}
	if m.limit <= 0 { // the machine's own figures are unknown
		return group
	}
	return memory{min(m.limit, group.limit), min(m.available, group.available)}
}

// read reads one group.
func (c *controller) read(root fs.FS, dir string) memory {
	limit := int64(math.MaxInt64)
	for _, name := range c.limits {
		if n, ok := parseLimit(readFile(root, path.Join(dir, name))); ok {
			limit = min(limit, n)
		}
	}
	if limit == math.MaxInt64 {
		return memory{}
	}
	usage, _ := parseLimit(readFile(root, path.Join(dir, c.usage)))
	stat := fields(readFile(root, path.Join(dir, "memory.stat")))
	var cache int64
	for _, name := range c.cache {
		cache = add(cache, stat[name])
	}
	return memory{limit: limit, available: max(0, limit-max(0, usage-cache))}
}

// parseLimit reads a file with one number. "max" and the near-2^63 values by
// which cgroup v1 says the same are no limit, nor is zero, which would not
// have let this process start.
func parseLimit(text string) (int64, bool) {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil || n <= 0 || n >= 1<<62 {
		return 0, false
	}
	return n, true
}

const pathMax = 4096 // Linux's PATH_MAX

// parseGroups reads /proc/self/cgroup into the group's path by controller;
// that of cgroup v2 is under "".
func parseGroups(text string) map[string]string {
	groups := make(map[string]string)
	for line := range strings.Lines(text) {
		f := strings.SplitN(strings.TrimRight(line, "\n"), ":", 3)
		if len(f) != 3 || !strings.HasPrefix(f[2], "/") || len(f[2]) > pathMax {
			continue
		}
		for name := range strings.SplitSeq(f[1], ",") {
			groups[name] = f[2]
		}
	}
	return groups
}

// mount is a line of /proc/self/mountinfo.
type mount struct {
	root    string // what of the file system is mounted
	point   string // where
	fsType  string
	options []string // of the file system
}

// parseMounts reads the control-group mounts of /proc/self/mountinfo.
func parseMounts(text string) []mount {
	var mounts []mount
	for line := range strings.Lines(text) {
		// id parent major:minor root point options [optional…] - type source super
		before, after, ok := strings.Cut(line, " - ")
		f, g := strings.Fields(before), strings.Fields(after)
		if !ok || len(f) < 6 || len(g) < 3 || !strings.HasPrefix(g[0], "cgroup") {
			continue
		}
		mounts = append(mounts, mount{
			root: unescape.Replace(f[3]), point: unescape.Replace(f[4]),
			fsType: g[0], options: strings.Split(g[2], ","),
		})
	}
	return mounts
}

// unescape undoes the octal escapes of mountinfo.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// dirs lists the directories of the group and of all groups above it that can
// be seen here, the group first, without the leading slash.
func dirs(group, fsType, option string, mounts []mount) []string {
	point, rel, found := "", "", false
	for _, m := range mounts {
		if m.fsType != fsType || option != "" && !slices.Contains(m.options, option) {
			continue
		}
		if r, ok := below(group, m.root); ok {
			point, rel, found = m.point, r, true
			break
		}
		// A container may see only a part of the tree that the group's path
		// does not name: what is mounted is then the nearest there is.
		if !found {
			point, found = m.point, true
		}
	}
	if !found {
		return nil
	}
	for list := []string(nil); ; rel = strings.TrimPrefix(path.Dir("/"+rel), "/") {
		list = append(list, strings.TrimPrefix(path.Join(point, rel), "/"))
		if rel == "" {
			return list
		}
	}
}

// below returns name relative to dir, when it is dir or inside.
func below(name, dir string) (string, bool) {
	rel, ok := strings.CutPrefix(path.Clean(name)+"/", strings.TrimSuffix(path.Clean(dir), "/")+"/")
	return strings.TrimSuffix(rel, "/"), ok
}

// readFile reads a file, at most 1 MiB of it, and gives "" when it cannot.
func readFile(root fs.FS, name string) string {
	f, err := root.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 1<<20))
	if err != nil {
		return ""
	}
	return string(text)
}
