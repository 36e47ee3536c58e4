package device

import "fmt"

// Manager is a device with managed (unified) memory: host and device see it at
// the same address, and where they have memory of their own, the driver moves
// its pages to whoever touches them. That is convenient and slow: a page that is
// missing is a fault. [Manager.Prefetch] moves pages before they are missed, which
// to the device is nearly as fast as a copy.
type Manager interface {
	// CanManage reports whether the device supports managed memory. All else
	// here fails with [ErrNotSupported] where it does not.
	CanManage() bool

	// Migration says how managed memory of this device moves.
	Migration() Migration

	// AllocManaged allocates n > 0 bytes that the host (as a slice) and the
	// device (at the address) see at the same place. The content is undefined.
	// [Device.Free] frees it; the slice must not be touched from then on. While
	// work on the device writes the memory, the host waits for that work before
	// it reads.
	//
	// It fails with [ErrOutOfMemory] when managed memory and all else on the
	// device would be more than the device has: pages would then be thrown out
	// again while they are needed. [ManagedOptions] can allow that. Memory that
	// other processes took since the first managed allocation is not seen while
	// as much managed memory may be on the device.
	AllocManaged(n int64, o ManagedOptions) (Ptr, []byte, error)

	// Prefetch queues the migration of n > 0 bytes at p to OnHost or OnDevice.
	// Where nothing migrates it checks its arguments and is done. It fails with
	// [ErrNotSupported] with [WholeMigration].
	Prefetch(s Stream, p Ptr, n int64, to Place) error

	// Advise says how n > 0 bytes at p will be used, in place of what was said
	// before. It changes where pages go and not what is in them. It takes
	// effect at once, not in the order of a stream. Where nothing migrates it
	// checks its arguments and is done. It fails with [ErrNotSupported] with
	// [WholeMigration].
	Advise(p Ptr, n int64, a Advice) error

	// Residency reports what is known of where n > 0 bytes at p are.
	Residency(p Ptr, n int64) (Residency, error)
}

// ManagedOptions say how managed memory is allocated. The zero value works.
type ManagedOptions struct {
	// Oversubscribe allows more managed memory than there is room for on the
	// device. What is touched then throws out what was touched before. Default:
	// such an allocation is refused.
	Oversubscribe bool
}

// Migration is how managed memory moves between host and device.
type Migration int

const (
	// NoMigration: host and device share their memory, so nothing moves.
	NoMigration Migration = iota
	// WholeMigration: before work starts on the device, the driver moves all
	// managed memory there. Until the work is done, the host must not touch any.
	// So it is on Windows, and on GPUs older than Pascal.
	WholeMigration
	// PageMigration: pages move one by one, by faults and by request, and host
	// and device may use managed memory at the same time.
	PageMigration
)

func (m Migration) String() string {
	switch m {
	case NoMigration:
		return "none"
	case WholeMigration:
		return "whole"
	case PageMigration:
		return "pages"
	}
	return fmt.Sprintf("Migration(%d)", int(m))
}

// Place is where pages of managed memory are, or should be.
type Place int

const (
	// Anywhere: no place in particular; or not the same one for all of a range.
	Anywhere Place = iota
	// OnHost: in host memory.
	OnHost
	// OnDevice: on the device that is asked.
	OnDevice
	// OnAnother: on another device. Only answers say so.
	OnAnother
)

func (p Place) String() string {
	switch p {
	case Anywhere:
		return "anywhere"
	case OnHost:
		return "host"
	case OnDevice:
		return "device"
	case OnAnother:
		return "another device"
	}
	return fmt.Sprintf("Place(%d)", int(p))
}

// Advice says how managed memory will be used. The zero value is no advice.
type Advice struct {
	// ReadMostly: it is read far more than written. Host and device keep a copy
	// each of the pages that they read; a write drops the other copies.
	ReadMostly bool

	// Preferred is where pages should stay: OnHost, OnDevice or Anywhere. Who
	// touches them from the other side reaches over the link if it can, and
	// moves them only if it cannot.
	Preferred Place

	// HostReads and DeviceReads keep the pages mapped for host or device
	// wherever they are, so that it reaches them over the link without a fault
	// where it can. That neither moves pages nor keeps them from moving.
	HostReads, DeviceReads bool
}

// Check fails with [ErrArgument] for advice that no device could take.
func (a Advice) Check() error {
	if a.Preferred < Anywhere || a.Preferred > OnDevice {
		return fmt.Errorf("%w: managed memory cannot be advised to be on %v", ErrArgument, a.Preferred)
	}
	return nil
}

// Residency is what is known of where a range of managed memory is.
type Residency struct {
	// Advice that holds for all of the range. Where nothing migrates it is zero.
	Advice

	// Prefetched is where all of the range was last told to go by Prefetch. It
	// says neither that it arrived nor that no fault moved it since.
	Prefetched Place

	// HostBytes is how many bytes of the range the host can touch now without a
	// fault: those in pages that are in host memory and mapped. The others are
	// on a device, or nobody touched them yet; of those in host memory the
	// device may have a copy. It is -1 where that is unknown, and all of the
	// range where nothing migrates.
	HostBytes int64
}
