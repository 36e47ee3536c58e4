package monitor

import (
	"os"
	"path/filepath"
	"time"

	"github.com/pinion-gpu/pinion/internal/provenance"
	"github.com/pinion-gpu/pinion/loader"
)

// Snapshot is what all of Pinion in this process holds and has done. As JSON it has
// the keys of the other documents: the unit is a key's last word.
//
// There is one element per device in each list, which adds up all that is open on
// it. Counts also have what was done by those that were closed since, so that they
// never fall; amounts are those of what is open.
type Snapshot struct {
	MeasuredAt time.Time `json:"measured_at"`
	Seconds    float64   `json:"seconds"` // that counts are about: since the process began to count, or since the earlier snapshot
	Version    string    `json:"version"`
	PID        int       `json:"pid"`
	Command    string    `json:"command"`

	VRAM     []VRAM     `json:"vram" prefix:"pinion_vram_"`
	Pinned   []Pinned   `json:"pinned" prefix:"pinion_pinned_"`
	Transfer []Transfer `json:"transfer" prefix:"pinion_transfer_"`
	Tier     []Tier     `json:"tier" prefix:"pinion_tier_"`
	Loader   []Loader   `json:"loader" prefix:"pinion_loader_"`
	Foreign  []Foreign  `json:"foreign" prefix:"pinion_foreign_"`
}

// In the types below, text is a label of the metrics of its struct. A number is a
// metric: a count, which only grows, or an amount of the moment. Of a "most" the
// largest is kept, others add up. A metric has the field's key as its name, behind the
// prefixes of the lists that it is in, unless it says another; that of a count ends in
// _total.

// VRAM is the pools of device memory, of package vram.
type VRAM struct {
	Device string `json:"device"`

	Pools            int64 `json:"pools" amount:"Open pools of device memory."`
	ReservedBytes    int64 `json:"reserved_bytes" amount:"Device memory that pools have from the device."`
	AllocatedBytes   int64 `json:"allocated_bytes" amount:"Device memory of live blocks, rounded to whole units."`
	RequestedBytes   int64 `json:"requested_bytes" amount:"Device memory of live blocks, as asked for."`
	ActiveBytes      int64 `json:"active_bytes" amount:"Device memory of live blocks, and of freed ones that a stream may still use."`
	FreeBytes        int64 `json:"free_bytes" amount:"Reserved device memory in no live or pending block."`
	FragmentedBytes  int64 `json:"fragmented_bytes" amount:"Free device memory that cannot be moved to where it is needed."`
	LargestFreeBytes int64 `json:"largest_free_bytes" most:"The largest free block of device memory."`
	Blocks           int64 `json:"blocks" amount:"Live blocks of device memory."`

	Allocations     int64 `json:"allocations" count:"Blocks of device memory handed out."`
	Frees           int64 `json:"frees" count:"Blocks of device memory freed."`
	AllocationBytes int64 `json:"allocation_bytes" count:"Device memory handed out, rounded to whole units."`
	DriverCalls     int64 `json:"driver_calls" count:"Calls that made, mapped, unmapped or returned device memory."`
	Retries         int64 `json:"retries" count:"Allocations of device memory that succeeded after memory was short."`
	OutOfMemory     int64 `json:"out_of_memory" count:"Allocations of device memory that failed."`

	Purposes []Purpose `json:"purposes" prefix:"purpose_"`
}

// Purpose is device memory of one purpose.
type Purpose struct {
	Purpose         string `json:"purpose"`
	AllocatedBytes  int64  `json:"allocated_bytes" amount:"Device memory of live blocks by purpose, rounded to whole units."`
	RequestedBytes  int64  `json:"requested_bytes" amount:"Device memory of live blocks by purpose, as asked for."`
	AllocationBytes int64  `json:"allocation_bytes" count:"Device memory handed out by purpose, rounded to whole units."`
}

// Pinned is the pools of pinned host memory, of package pinned. A device is the one
// that the memory is pinned for.
type Pinned struct {
	Device string `json:"device"`

	Pools           int64 `json:"pools" amount:"Open pools of pinned memory."`
	BudgetBytes     int64 `json:"budget_bytes" amount:"The most memory that pools of pinned memory may have."`
	ReservedBytes   int64 `json:"reserved_bytes" amount:"Host memory in segments of pools of pinned memory."`
	PageableBytes   int64 `json:"pageable_bytes" amount:"Reserved memory that could not be pinned."`
	RegisteredBytes int64 `json:"registered_bytes" amount:"Memory of callers that pools have pinned."`
	ActiveBytes     int64 `json:"active_bytes" amount:"Pinned memory handed out, in whole pages."`
	RequestedBytes  int64 `json:"requested_bytes" amount:"Pinned memory handed out, as asked for."`
	PendingBytes    int64 `json:"pending_bytes" amount:"Pinned memory that was freed, and that a device may still use."`
	FreeBytes       int64 `json:"free_bytes" amount:"Pinned memory ready to be handed out."`
	LostBytes       int64 `json:"lost_bytes" amount:"Pinned memory given up for good."`
	Segments        int64 `json:"segments" amount:"Segments of pinned memory."`
	Buffers         int64 `json:"buffers" amount:"Buffers of pinned memory handed out."`
	PendingBuffers  int64 `json:"pending_buffers" amount:"Freed buffers that a device may still use."`

	Hits               int64   `json:"hits" count:"Buffers served from memory that was there."`
	Misses             int64   `json:"misses" count:"Buffers that a new segment was made for."`
	Failures           int64   `json:"failures" count:"Buffers that could not be had."`
	Waits              int64   `json:"waits" count:"Frees that waited for the device because no event could be recorded."`
	SegmentAllocations int64   `json:"segment_allocations" count:"Segments of pinned memory made."`
	PinSeconds         float64 `json:"pin_seconds" count:"Time that making segments took: mapping, faulting in, pinning."`
}

// Transfer is the engines of package transfer.
type Transfer struct {
	Device string `json:"device"`

	Engines int64 `json:"engines" amount:"Open transfer engines."`
	Waiting int64 `json:"waiting" metric:"waiting_copies" amount:"Copies of which a part waits for a copier."`

	Traffic []Traffic `json:"traffic"`
}

// Traffic is the copies in one direction by one path; see [transfer.Traffic].
type Traffic struct {
	Direction string `json:"direction"`
	Path      string `json:"path"`

	Active int64 `json:"active" metric:"active_copies" amount:"Copies that have begun and not ended."`
	Copies int64 `json:"copies" count:"Copies that have ended; batches and files count as one."`
	Failed int64 `json:"failed" metric:"failed_copies" count:"Copies that ended with an error other than that of a context."`
	Bytes  int64 `json:"bytes" count:"Bytes that arrived."`
}

// Tier is the stores of package tier.
type Tier struct {
	Device string `json:"device"`

	Stores     int64 `json:"stores" amount:"Open stores of arrays."`
	Arrays     int64 `json:"arrays" amount:"Arrays in stores."`
	ArrayBytes int64 `json:"array_bytes" amount:"Bytes of all arrays."`
	HeldBytes  int64 `json:"held_bytes" amount:"Bytes of arrays that leases hold on the device."`
	AheadBytes int64 `json:"ahead_bytes" amount:"Bytes of arrays that were brought to the device and not used yet."`
	Leases     int64 `json:"leases" amount:"Leases that were not released."`
	Waiting    int64 `json:"waiting" metric:"waiting_uses" amount:"Uses that wait for arrays, or for room."`

	Uses           int64   `json:"uses" count:"Arrays that were used."`
	UseBytes       int64   `json:"use_bytes" count:"Bytes of arrays that were used."`
	Misses         int64   `json:"misses" count:"Uses of arrays that were not on the device nor on their way."`
	MissBytes      int64   `json:"miss_bytes" count:"Bytes of arrays that were not on the device nor on their way when they were used."`
	Waits          int64   `json:"waits" count:"Calls of Use that waited for arrays, or for room."`
	WaitSeconds    float64 `json:"wait_seconds" count:"Time that calls of Use waited."`
	Fills          int64   `json:"fills" count:"Copies of arrays to the device."`
	FillBytes      int64   `json:"fill_bytes" count:"Bytes of arrays copied to the device."`
	Prefetches     int64   `json:"prefetches" count:"Copies of arrays to the device before anybody asked."`
	WastedBytes    int64   `json:"wasted_bytes" count:"Bytes brought in ahead that left before they were used."`
	WriteBacks     int64   `json:"write_backs" count:"Copies of arrays from the device to host memory."`
	WriteBackBytes int64   `json:"write_back_bytes" count:"Bytes of arrays copied from the device to host memory."`
	SavedBytes     int64   `json:"saved_bytes" count:"Bytes of arrays copied from host memory to files."`
	FetchedBytes   int64   `json:"fetched_bytes" count:"Bytes of arrays copied from files to host memory."`
	Evictions      int64   `json:"evictions" count:"Arrays that left the device for others of the store."`
	ReclaimedBytes int64   `json:"reclaimed_bytes" count:"Bytes that left the device for others who use the pool."`
	Strays         int64   `json:"strays" count:"Uses that an announced order did not expect."`

	Levels []Level `json:"levels"`
}

// Level is one tier of all stores of a device.
type Level struct {
	Tier        string `json:"tier"`
	UsedBytes   int64  `json:"used_bytes" amount:"Bytes that arrays have of a tier."`
	BudgetBytes int64  `json:"budget_bytes" amount:"Bytes that arrays may have of a tier."`
}

// Loader is the loaders of package loader. A loader of several devices has them all
// as its device, with commas.
type Loader struct {
	Device string `json:"device"`

	Loaders       int64 `json:"loaders" amount:"Open loaders."`
	Devices       int64 `json:"devices" amount:"Devices that open loaders feed."`
	Workers       int64 `json:"workers" amount:"Goroutines that read samples."`
	Slabs         int64 `json:"slabs" amount:"Batches of host memory."`
	Reading       int64 `json:"reading" metric:"reading_slabs" amount:"Slabs that hold batches: being read, waiting, or on their way."`
	Ready         int64 `json:"ready" metric:"ready_batches" amount:"Batches queued to devices that nobody took yet."`
	DeviceBuffers int64 `json:"device_buffers" amount:"Batches of device memory."`
	HostBytes     int64 `json:"host_bytes" amount:"Host memory of slabs."`
	StagingBytes  int64 `json:"staging_bytes" amount:"Pinned memory that slabs that are not pinned are copied through."`
	DeviceBytes   int64 `json:"device_bytes" amount:"Device memory of batches."`

	Samples           int64   `json:"samples" count:"Samples delivered."`
	Batches           int64   `json:"batches" count:"Batches delivered."`
	FailedSamples     int64   `json:"failed_samples" count:"Samples that could not be read and were left out or replaced."`
	ReplacedSamples   int64   `json:"replaced_samples" count:"Samples that could not be read and were replaced by others."`
	H2DBytes          int64   `json:"h2d_bytes" count:"Bytes copied to devices for the batches delivered."`
	DeviceWaitSeconds float64 `json:"device_wait_seconds" count:"Time that the program waited for batches."`

	Stages []Stage `json:"stages" prefix:"stage_"`
}

// Stage is one stage of loaders. Stages run at the same time, those of workers in
// every worker.
type Stage struct {
	Stage   string  `json:"stage"`
	Where   string  `json:"where"` // "worker" or "device"
	Seconds float64 `json:"seconds" count:"Time spent in a stage, over all workers."`
}

// Take takes a snapshot. It may be called at any time from any goroutine; it holds
// up the pools for some microseconds.
func Take() Snapshot {
	now := time.Now()
	s := Snapshot{
		MeasuredAt: now.UTC(), Seconds: now.Sub(start).Seconds(),
		Version: version, PID: os.Getpid(), Command: command,
		VRAM: pools.take(), Pinned: pinnedPools.take(), Transfer: engines.take(), Tier: stores.take(), Loader: loaders.take(),
		Foreign: takeForeign(),
	}
	return s
}

var (
	start   = time.Now()
	version = provenance.Now().Version
	command = filepath.Base(os.Args[0])
)

// Since returns s with the counts since an earlier snapshot of the same process.
// Amounts stay those of s. What is divided by Seconds then is a rate.
func (s Snapshot) Since(earlier Snapshot) Snapshot {
	d := s
	d.Seconds = s.MeasuredAt.Sub(earlier.MeasuredAt).Seconds()
	d.VRAM = since(s.VRAM, earlier.VRAM)
	d.Pinned = since(s.Pinned, earlier.Pinned)
	d.Transfer = since(s.Transfer, earlier.Transfer)
	d.Tier = since(s.Tier, earlier.Tier)
	d.Loader = since(s.Loader, earlier.Loader)
	d.Foreign = since(s.Foreign, earlier.Foreign)
	return d
}

// Limit names what held loaders up during the seconds that l is about, as
// [loader.Stats.Limit] does.
func (l Loader) Limit(seconds float64) string {
	s := loader.Stats{
		Batches: l.Batches, Workers: int(l.Workers), Devices: int(l.Devices), Reading: int(l.Reading), Ready: int(l.Ready),
		DeviceWait: duration(l.DeviceWaitSeconds),
	}
	for _, g := range l.Stages {
		s.Stages = append(s.Stages, loader.Stage{Name: g.Stage, Where: g.Where, Time: duration(g.Seconds)})
	}
	return s.Limit(duration(seconds))
}

func duration(seconds float64) time.Duration {
	return time.Duration(seconds * float64(time.Second))
}
