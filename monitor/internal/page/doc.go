// Package page is the dashboard of package monitor: one page, the API behind it, and
// what both need to watch a process without holding it up.
//
// A [Source] says what there is; [New] serves it. The files of the page are embedded,
// and it asks nothing of any other origin.
//
// One goroutine takes samples while somebody watches, whoever many watch, and ends
// with the last of them. Nobody waits for a slow reader: each has room for one sample,
// the latest. What asks a pool or a device runs beside, one call at a time, so that a
// driver that never answers is said and not waited for.
package page
