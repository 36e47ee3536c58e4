// Package timeline records what happens in a process, on the host and on its devices,
// on one clock: copies and kernels with the times at which the device did them, the
// stages of loaders, waits, moves between tiers, and what memory holds.
package timeline
