package sysmem

import (
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// Quota is how much processor time the control groups of a process allow it.
type Quota struct {
	CPUs float64 // on average; 0: all there are

	// Of the periods in which the process's own group wanted to run, how many
	// ended early because the time was used up.
	Periods, Throttled int64
}

// QuotaOf reads the quota of this process on a system whose file system, with
// proc and the control groups in it, is root: the smallest of those of all groups
// above the process.
func QuotaOf(root fs.FS) (q Quota) {
	groups := parseGroups(readFile(root, "proc/self/cgroup"))
	mounts := parseMounts(readFile(root, "proc/self/mountinfo"))
	for _, version := range []struct {
		fsType, option string
		read           func(root fs.FS, dir string) float64
	}{
		{"cgroup2", "", quotaV2}, {"cgroup", "cpu", quotaV1},
	} {
		group, ok := groups[version.option]
		if !ok {
			continue
		}
		for _, dir := range dirs(group, version.fsType, version.option, mounts) {
			cpus := version.read(root, dir)
			if cpus <= 0 || q.CPUs > 0 && cpus >= q.CPUs {
				continue
			}
			stat := fields(readFile(root, path.Join(dir, "cpu.stat")))
			q = Quota{cpus, stat["nr_periods"], stat["nr_throttled"]}
		}
	}
	return q
}

// quotaV2 reads "200000 100000": microseconds of each period.
func quotaV2(root fs.FS, dir string) float64 {
	f := strings.Fields(readFile(root, path.Join(dir, "cpu.max")))
	if len(f) != 2 {
		return 0
	}
	return ratio(f[0], f[1])
}

func quotaV1(root fs.FS, dir string) float64 {
	return ratio(strings.TrimSpace(readFile(root, path.Join(dir, "cpu.cfs_quota_us"))),
		strings.TrimSpace(readFile(root, path.Join(dir, "cpu.cfs_period_us"))))
}

// ratio is 0 for what is no quota, such as "max" or -1.
func ratio(quota, period string) float64 {
	q, err1 := strconv.ParseInt(quota, 10, 64)
	p, err2 := strconv.ParseInt(period, 10, 64)
	if err1 != nil || err2 != nil || q <= 0 || p <= 0 {
		return 0
	}
	return float64(q) / float64(p)
}
