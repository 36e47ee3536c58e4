// Package pagemem is page-granular host memory outside the Go heap: the
// memory that devices copy from and to. The garbage collector neither moves
// nor scans nor frees it, GOMEMLIMIT does not see it, and it starts on a page
// boundary, as page-locking wants.
//
// The usual order of calls makes pinning cheap: map, ask for huge pages, fault
// the pages in from several threads, and only then lock.
//
//	b, err := pagemem.Map(64 << 20)
//	pagemem.Huge(b)
//	err = pagemem.Populate(b, 0)
//	err = pagemem.Lock(b)
//
// Where the pages should be on one NUMA node, numa.Bind says so before they
// are faulted in.
//
// Memory stays mapped until [Unmap]; a slice kept for longer is a dangling
// pointer, and using it kills the process.
//
// Linux has all of it. Elsewhere a hint that the system does not know does
// nothing, and what cannot be done fails with [errors.ErrUnsupported].
package pagemem
