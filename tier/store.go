package tier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/callstack"
	"github.com/pinion-gpu/pinion/internal/live"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/tier/internal/forecast"
	"github.com/pinion-gpu/pinion/vram"
)

// Store holds arrays in the memory of a device and in the tiers below it. All its
// methods are safe for concurrent use. Close it before its device and its pool.
type Store struct {
	dev     device.Device
	options Options
	pool    *vram.Pool
	ownPool bool
	ctx     context.Context // of moves; ends with the store
	own     context.Context // of the store's own allocations, for reclaim
	cancel  func()
	remove  func() // takes the reclaimer out of the pool

	in, out *lane

	mu     sync.Mutex
	closed bool // nothing new begins
	ended  bool // the lanes end
	quiet  sync.Cond

	arrays    map[*Array]struct{}
	made      int64
	committed int64 // bytes of all arrays
	largest   int64 // bytes that the largest array so far takes of a tier
	unit      int64 // all arrays so far take multiples of that

	deviceUsed int64 // bytes of copies and moves on the device
	coming     int64 // of these, bytes that are set aside and were not yet taken from the pool
	dropped    int64 // bytes that left the device so far
	owed       int64 // bytes that others who use the pool wait for
	devicePeak int64
	limit      int64 // what the pool really has for the store, up to the budget
	pinned     int64 // bytes of arrays that admitted uses hold
	ahead      int64 // bytes of what was brought in ahead and is not used yet
	filling    int64 // bytes that are being copied to the device
	cleaning   int64 // bytes that are being written back
	memory     []*memoryPool
	files      *fileTier // nil: none

	waiting  []*use               // for their turn, in order
	active   []*use               // admitted, and not complete, in order
	leases   int                  // complete uses that were not released
	watched  map[*Lease]LeaseInfo // those of them that somebody who looks for leaks wants to know
	watches  int64                // how many there were
	first    *use                 // of them, the last time that it lacked room
	patience int64                // the number of moves after which it fails
	bringing []*Array             // reserved on the device: their content is still below
	inflight int                  // moves
	moves    int64                // so far
	victims  victims
	promoted *Array                      // the newest one that went up for want of host memory
	starved  error                       // the pool had no memory; until something leaves the device
	asking   struct{ pool, device bool } // a goroutine waits for memory that comes free there, and asks the pool again
	askers   sync.WaitGroup
	changed  chan struct{} // closed when something changed; nil: nobody waits for that
	stuck    error         // why the latest move failed

	departures int64 // of uses: leases that were released, and waits in vain

	clock  forecast.Clock
	orders []*Order
	events events
	counts Counts
	taping []*Recording
	group  string // of a timeline's rows
}

// New makes a store on dev, which it does not own. It takes no memory yet.
func New(dev device.Device, o Options) (*Store, error) {
	if dev == nil {
		return nil, fmt.Errorf("tier: %w: no device", device.ErrArgument)
	}
	o, err := o.withDefaults(dev)
	if err != nil {
		return nil, err
	}
	s := &Store{dev: dev, options: o, pool: o.Pool, limit: o.DeviceBytes, arrays: map[*Array]struct{}{}, watched: map[*Lease]LeaseInfo{}, events: events{dev: dev}, group: "tier " + dev.Info().ID}
	s.quiet.L = &s.mu
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.own = context.WithValue(s.ctx, ownKey{}, s)
	if s.pool == nil {
		s.ownPool = true
		if s.pool, err = vram.New(dev, vram.Options{Budget: o.DeviceBytes + o.DeviceBytes/piecesShare + piecesBytes}); err != nil {
			return nil, fmt.Errorf("tier: %w", err)
		}
	}
	if err := s.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("tier: %w", err), s.close())
	}
	s.in.start()
	s.out.start()
	s.remove = s.pool.OnLowMemory(s.reclaim)
	live.Add(s)
	return s, nil
}

// What the store's own pool may have beyond the arrays, for memory in pieces.
const (
	piecesShare = 32
	piecesBytes = 8 << 20
)

// open makes what New needs of the device.
func (s *Store) open() (err error) {
	if s.memory, err = memoryPools(s.dev, s.options); err != nil {
		return err
	}
	if len(s.options.Files.Folders) > 0 && len(s.memory) == 0 {
		return fmt.Errorf("%w: arrays pass through host memory on their way to files, and it has %d bytes", device.ErrArgument, s.options.HostBytes)
	}
	if s.files, err = openFiles(s.ctx, s.options.Files); err != nil {
		return err
	}
	if s.in, err = newLane(s, "fills", s.launchFill, s.landFill); err != nil {
		return err
	}
	s.out, err = newLane(s, "write-backs", s.launchWriteBack, s.landWriteBack)
	return err
}

// Device returns the device that the store was made for.
func (s *Store) Device() device.Device { return s.dev }

// NewArray adds an array of bytes > 0 zeros, with a name for reports, or none. It
// takes no memory yet, but it must fit: NewArray fails with a [*RoomError] when all
// tiers together cannot hold the arrays of the store any more with room to move them
// (up to two of the largest; docs/tier.md has the sum), or host memory not the one
// array, and with ErrBudget when the device cannot.
func (s *Store) NewArray(name string, bytes int64) (*Array, error) {
	if bytes <= 0 {
		return nil, fmt.Errorf("tier: %w: an array of %d bytes", device.ErrArgument, bytes)
	}
	stack := callstack.IfWanted(0)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	a := &Array{s: s, name: name, id: s.made + 1, bytes: bytes, size: pagemem.RoundUp(bytes), stack: stack}
	if a.size > s.options.DeviceBytes {
		return nil, fmt.Errorf("tier: %w: %v has %d bytes, the budget is %d", ErrBudget, a, bytes, s.options.DeviceBytes)
	}
	if !s.canLeave(a) {
		return nil, s.noRoom(a.String()+" in host memory", a.size, s.memoryFree(), nil)
	}
	largest, unit := max(s.largest, a.size), gcd(s.unit, a.size)
	if free := s.capacity(largest, unit) - s.committed; a.size > free {
		return nil, s.noRoom(a.String(), a.size, free, nil)
	}
	s.made++
	s.committed += a.size
	s.largest, s.unit = largest, unit
	s.clock.HalfLife = halfLives * s.committed
	s.arrays[a] = struct{}{}
	return a, nil
}

// halfLives is how many times the bytes of all arrays are used until uses count half
// in the short memory; see TestPolicies of internal/forecast.
const halfLives = 4

// capacity is how many bytes of arrays the tiers hold together and can still move, so
// that any array comes to the device, if need be after others left it: the largest
// takes so many bytes, and all take multiples of unit. In each tier, what is left may
// be a unit too little for the next array to move there; then one more unit has to be
// free. What comes from a file takes room in host memory before it gives up its own.
// s.mu is held.
func (s *Store) capacity(largest, unit int64) int64 {
	room := s.options.DeviceBytes / unit * unit
	if len(s.memory) == 0 {
		return room // nothing ever moves
	}
	room -= largest
	for _, p := range s.memory {
		room += max(p.budget/unit*unit-(largest-unit), 0)
	}
	if s.files != nil {
		room += max(s.files.bytes/unit*unit-(largest-unit)-largest, 0)
	}
	return room
}

func gcd(a, b int64) int64 {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}

// canLeave reports whether host memory has room for an array, if there is any.
// s.mu is held.
func (s *Store) canLeave(a *Array) bool {
	for _, p := range s.memory {
		if a.size <= p.budget {
			return true
		}
	}
	return len(s.memory) == 0
}

// window is how many bytes the store brings in ahead. s.mu is held.
func (s *Store) window() int64 {
	if w := s.options.WindowBytes; w > 0 {
		return w
	}
	return min(max(windowOf*s.largest, leastWindow), max(2*s.largest, s.options.DeviceBytes/16))
}

// levels lists the tiers. s.mu is held.
func (s *Store) levels() []Level {
	list := []Level{{"device", s.options.DeviceBytes, s.deviceUsed}}
	for _, p := range s.memory {
		list = append(list, Level{p.name, p.budget, p.budget - p.room.Left()})
	}
	if s.files != nil {
		bytes, used := s.files.store.Usage()
		list = append(list, Level{"file", bytes, used})
	}
	return list
}

// Close waits for moves under way and gives all memory back. Uses that wait fail
// with ErrClosed. Close fails with ErrInUse when arrays are in use; their memory is
// then given back all the same, once the device's work is done. A second Close does
// nothing.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	for _, u := range slices.Concat(s.waiting, s.active) {
		s.finish(u, ErrClosed)
	}
	s.tellChanged()
	for s.inflight > 0 {
		s.quiet.Wait()
	}
	s.ended = true
	s.in.work.Signal()
	s.out.work.Signal()
	s.mu.Unlock()
	s.remove()
	s.in.ended.Wait()
	s.out.ended.Wait()
	live.Remove(s)
	s.cancel()
	s.askers.Wait()

	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for a := range s.arrays {
		if a.users > 0 {
			errs = append(errs, fmt.Errorf("tier: close: %v: %w", a, ErrInUse))
			a.users, a.pins = 0, 0
		}
	}
	if len(errs) > 0 {
		errs = append(errs, s.dev.Synchronize())
	}
	for a := range s.arrays {
		a.freed = true
		if a.dev.state == abandoned {
			a.dev.state = ready
		}
		s.settle(a)
	}
	return errors.Join(append(errs, s.close())...)
}

// close gives back what open and New made.
func (s *Store) close() error {
	s.cancel()
	errs := []error{}
	for _, l := range []*lane{s.in, s.out} {
		if l != nil {
			errs = append(errs, l.stream.Close())
		}
	}
	s.events.close()
	errs = append(errs, closeMemory(s.memory), s.files.close())
	if s.ownPool {
		errs = append(errs, s.pool.Close())
	}
	return errors.Join(errs...)
}
