package sysmem

import "testing"

func TestQuotaOf(t *testing.T) {
	const (
		mountV2 = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
		mountV1 = "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n"
	)
	for name, c := range map[string]struct {
		files []string
		want  Quota
	}{
		"nothing": {nil, Quota{}},
		"v2 without one": {[]string{"proc/self/cgroup", "0::/\n", "proc/self/mountinfo", mountV2,
			"sys/fs/cgroup/cpu.max", "max 100000\n"}, Quota{}},
		"v2, that of a group above": {[]string{"proc/self/cgroup", "0::/a/b\n", "proc/self/mountinfo", mountV2,
			"sys/fs/cgroup/a/b/cpu.max", "400000 100000\n", "sys/fs/cgroup/a/cpu.max", "150000 100000\n",
			"sys/fs/cgroup/a/cpu.stat", "usage_usec 5\nnr_periods 200\nnr_throttled 50\n"}, Quota{1.5, 200, 50}},
		"v1": {[]string{"proc/self/cgroup", "1:cpu,cpuacct:/\n", "proc/self/mountinfo", mountV1,
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}, Quota{0.5, 0, 0}},
		"v1 without one": {[]string{"proc/self/cgroup", "1:cpu:/\n", "proc/self/mountinfo", mountV1,
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}, Quota{}},
		"broken": {[]string{"proc/self/cgroup", "0::/\n", "proc/self/mountinfo", mountV2,
			"sys/fs/cgroup/cpu.max", "many few\n"}, Quota{}},
	} {
		if got := QuotaOf(tree(c.files...)); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
