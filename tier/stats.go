package tier

import "time"

// Counts are what a store did since it was made.
type Counts struct {
	Uses      int64 // arrays in calls of Use
	UsedBytes int64

	Misses      int64 // of these, arrays whose content was not on the device nor on its way
	MissedBytes int64

	Fills       int64 // copies to the device that were begun
	FilledBytes int64
	Prefetches  int64 // of these, before anybody asked
	WastedBytes int64 // brought in ahead, and gone before they were used

	WriteBacks   int64 // copies from the device to host memory that were begun
	WrittenBytes int64
	SavedBytes   int64 // copied from host memory to files
	FetchedBytes int64 // and back
	Evictions    int64 // copies that left the device for others of the store

	Waits    int64         // uses that waited for arrays, or for room
	WaitTime time.Duration // that they waited, until they began or failed

	ReclaimedBytes int64 // that left for others who use the pool
	Strays         int64 // uses that an announced order did not expect
}

// Stats is the state of a store at one moment.
type Stats struct {
	Counts
	Levels      []Level // the tiers
	DevicePeak  int64   // most bytes on the device
	DeviceLimit int64   // what the store makes do with, below its budget after others needed memory
	Arrays      int
	Bytes       int64 // of all arrays
	PinnedBytes int64 // of arrays that uses hold
	AheadBytes  int64 // of arrays that were brought in ahead and not used yet
	Leases      int   // that were not released
	Waiting     int   // uses that wait for arrays, or for room
}

// Stats returns the statistics.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{
		Counts: s.counts, Levels: s.levels(), DevicePeak: s.devicePeak, DeviceLimit: s.limit,
		Arrays: len(s.arrays), Bytes: s.committed, PinnedBytes: s.pinned, AheadBytes: s.ahead,
		Leases: s.leases, Waiting: len(s.waiting) + len(s.active),
	}
}
