package segment

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/pinion-gpu/pinion/internal/process"
	"github.com/pinion-gpu/pinion/internal/shmem"
)

// Owner is one mapping of a segment. A process that has the segment open
// several times is listed as often.
type Owner struct {
	PID     int
	Creator bool // its process made the segment
	// Foreign: the process is in another PID namespace (another container),
	// so PID means nothing here, and it counts as alive for as long as its
	// slot is taken.
	Foreign bool
}

// Owners lists the live owners of the segment, itself included, and frees the
// slots of processes that died.
func (s *Segment) Owners() ([]Owner, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.mem == nil {
		return nil, s.closedError("owners")
	}
	unlock, err := shmem.Lock(s.file)
	if err != nil {
		return nil, fmt.Errorf("segment: owners of %s: %w", s.header.label(), err)
	}
	defer unlock()
	return s.header.owners(s.table().live(process.ID.Alive)), nil
}

func (h header) owners(ids []process.ID) []Owner {
	all := make([]Owner, len(ids))
	for i, id := range ids {
		all[i] = Owner{PID: int(id.PID), Creator: id == h.creator, Foreign: id.Foreign()}
	}
	return all
}

// ownersText lists owners for an error.
func ownersText(owners []Owner) string {
	const most = 8
	var b strings.Builder
	fmt.Fprintf(&b, "%d: ", len(owners))
	for i, o := range owners {
		if i == most {
			b.WriteString(", …")
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "process %d", o.PID)
		if o.Foreign {
			b.WriteString(" of another PID namespace")
		}
	}
	return b.String()
}

// ownerTable is the slots of a header. Its methods are called with the file
// locked; alive is [process.ID.Alive], except in tests.
type ownerTable []byte

// table is called with mem not nil.
func (s *Segment) table() ownerTable { return tableOf(s.mem) }

func tableOf(header []byte) ownerTable { return header[slotsAt:][:slotCount*slotBytes] }

func (t ownerTable) slot(i int) []byte { return t[i*slotBytes:][:slotBytes] }

func (t ownerTable) free(i int) { binary.LittleEndian.PutUint32(t.slot(i), slotFree) }

// live lists the owners that are alive and frees the slots of the others.
func (t ownerTable) live(alive func(process.ID) bool) []process.ID {
	var ids []process.ID
	for i := range slotCount {
		taken, id := getOwner(t.slot(i))
		switch {
		case !taken:
		case alive(id):
			ids = append(ids, id)
		default:
			t.free(i)
		}
	}
	return ids
}

// join takes a free slot for id, after freeing those of dead owners.
func (t ownerTable) join(id process.ID, alive func(process.ID) bool) (int, error) {
	t.live(alive)
	for i := range slotCount {
		if taken, _ := getOwner(t.slot(i)); !taken {
			putOwner(t.slot(i), id)
			return i, nil
		}
	}
	return 0, fmt.Errorf("%w: all %d slots are taken", ErrOwned, slotCount)
}

// leave frees slot i, unless somebody else has it by now.
func (t ownerTable) leave(i int, id process.ID) {
	if taken, owner := getOwner(t.slot(i)); taken && owner == id {
		t.free(i)
	}
}
