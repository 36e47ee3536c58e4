package sysmem

import "golang.org/x/sys/unix"

func now() memory {
	total, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return memory{}
	}
	m := memory{limit: int64(total)}
	// Free pages, file pages and pages whose owner can do without them.
	var pages int64
	for _, name := range []string{"vm.page_free_count", "vm.page_pageable_external_count", "vm.page_purgeable_count"} {
		n, err := unix.SysctlUint32(name)
		if err != nil {
			pages = 0
			break
		}
		pages += int64(n)
	}
	if size, err := unix.SysctlUint32("vm.pagesize"); err == nil && pages > 0 {
		m.available = min(pages*int64(size), m.limit)
	} else {
		m.available = m.limit / 2 // the counts are not a documented interface
	}
	return m
}
