// Package sysmem tells how much of the machine's memory this process may
// have. In a container the machine's own figures are far too large: what
// counts is the smallest of them and of the limits of every control group
// above the process, and going past the latter gets the process killed.
//
//	budget := sysmem.Available() / 4
//
// On Linux the package reads /proc/meminfo and the memory controllers of
// cgroup v2 and v1, at each call; that takes about a tenth of a millisecond. On
// macOS and Windows it asks the system for its totals. [QuotaOf] reads what the
// same control groups say of processors.
package sysmem
