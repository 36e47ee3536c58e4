package procbench

// memory is a kind of host memory.
type memory string

const (
	pageable   memory = "pageable"
	private    memory = "private"
	serialised memory = "serialised"
	shared     memory = "shared"
)

// Names of paths, as in [Row].
const (
	Pageable         = "pageable"
	PageableStaged   = "pageable, staged"
	Private          = "private pinned"
	Serialised       = "serialised pinned"
	SerialisedStaged = "serialised pinned, staged"
	Shared           = "shared pinned"
)

// path is one way to copy from and to one kind of memory.
type path struct {
	name   string
	memory memory
	staged bool // by a transfer.Engine instead of the backend
}

var paths = []path{
	{Pageable, pageable, false},
	{PageableStaged, pageable, true},
	{Private, private, false},
	{Serialised, serialised, false},
	{SerialisedStaged, serialised, true},
	{Shared, shared, false},
}

// directions are the values of copyID.toHost.
var directions = []bool{false, true}

func direction(toHost bool) string {
	if toHost {
		return "d2h"
	}
	return "h2d"
}

// Names of what is timed beside copies, as in [Timing].
const (
	OpenDevice  = "open the device"
	PinPrivate  = "pin private memory"
	MapShared   = "map the shared segment"
	PinShared   = "pin the shared segment"
	SendPrivate = "serialise and send a pinned buffer"
)
