package vram

import "time"

// Account follows an amount over time, in bytes or in blocks. Current, Allocated
// and Freed are exact. So is Peak while one processor allocates; for each other
// one it may be off by 1/1024 of the pool's budget, or of the device's memory,
// and for other accounts than those of all allocated bytes by 1/128.
type Account struct {
	Current   int64
	Peak      int64 // of Current, since the pool was made or ResetPeaks
	Allocated int64 // sum of all that came
	Freed     int64 // sum of all that went
}

// Stats is the state of a pool. It is a snapshot: nothing in it changes later.
type Stats struct {
	Requested Account // bytes that were asked for and are live
	Allocated Account // the same, rounded to whole units: what the live blocks take
	Active    Account // Allocated, and what is freed but still in use by other streams
	Reserved  Account // bytes that the pool has from the device
	Blocks    Account // live allocations, by number

	Purposes [purposes]PurposeStats // by Purpose

	Free        int64 // bytes of Reserved that no live or pending block has
	Stuck       int64 // bytes of Free in chunks that live blocks have a part of
	LargestFree int64 // bytes of the largest piece of Free that is one range of addresses
	Budget      int64 // the most that Reserved may be; 0: what the device has
	ChunkBytes  int64 // physical memory comes in chunks of so many bytes; 0: in whole segments

	Calls       DriverCalls
	Retries     int64 // allocations that found memory short and got it in the end
	OutOfMemory int64 // allocations that failed
	Age         time.Duration
}

// PurposeStats are the accounts of one purpose.
type PurposeStats struct {
	Purpose   Purpose
	Requested Account
	Allocated Account
	Limit     int64 // the most that Allocated may be; 0: no limit
}

// DriverCalls counts calls that made, mapped or returned memory.
type DriverCalls struct {
	Create, Release int64 // of chunks, or of segments where there are no chunks
	Map, Unmap      int64 // chunks that were mapped and unmapped
}

// Total is the number of all calls.
func (c DriverCalls) Total() int64 { return c.Create + c.Release + c.Map + c.Unmap }

// Fragmentation is the share, 0 to 1, of the reserved bytes that no live block
// has and that cannot be moved to where they are needed: free pieces smaller
// than a chunk, and ends of chunks whose other part is in use.
func (s Stats) Fragmentation() float64 {
	if s.Reserved.Current == 0 {
		return 0
	}
	return float64(s.Stuck) / float64(s.Reserved.Current)
}
