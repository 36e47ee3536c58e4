package segment

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/internal/process"
)

// deadOwner is a process that cannot be.
func deadOwner() process.ID {
	self, _ := process.Self()
	return process.ID{PID: self.PID, Start: self.Start + 1, Namespace: self.Namespace}
}

// The layout is written down byte by byte, because others rely on it.
func TestLayout(t *testing.T) {
	b := make([]byte, headerBytes)
	header{
		size: 0x0102030405060708, generation: 0x1112131415161718,
		creator: process.ID{PID: 0x21222324, Start: 0x3132333435363738, Namespace: 0x4142434445464748},
		name:    "name", path: "/path",
	}.put(b)
	if i, err := tableOf(b).join(process.ID{PID: 1, Start: 2, Namespace: 3}, func(process.ID) bool { return true }); i != 0 || err != nil {
		t.Fatal(i, err)
	}
	want := make([]byte, 65536)
	for at, s := range map[int]string{
		0:    "PINIONSG",
		8:    "\x01\x00\x00\x00",
		16:   "\x08\x07\x06\x05\x04\x03\x02\x01",
		24:   "\x18\x17\x16\x15\x14\x13\x12\x11",
		32:   "\x01\x00\x00\x00\x24\x23\x22\x21\x38\x37\x36\x35\x34\x33\x32\x31\x48\x47\x46\x45\x44\x43\x42\x41",
		64:   "name",
		128:  "/path",
		4096: "\x01\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00",
	} {
		copy(want[at:], s)
	}
	if !bytes.Equal(b, want) {
		for i := range b {
			if b[i] != want[i] {
				t.Fatalf("byte %d is %#x, want %#x", i, b[i], want[i])
			}
		}
	}
	if len(tableOf(b)) != 32768 || len(tableOf(b).slot(1023)) != 32 {
		t.Error("not 1024 slots of 32 bytes")
	}
}

func FuzzSegmentHeader(f *testing.F) {
	f.Fuzz(func(t *testing.T, start []byte) {
		b := make([]byte, headerBytes)
		copy(b, start)
		if h, err := parseHeader(start[:min(len(start), headerBytes-1)]); !errors.Is(err, ErrInvalid) {
			t.Fatalf("%+v of %d bytes, %v", h, len(start), err)
		}
		h, err := parseHeader(b)
		if err != nil {
			if !errors.Is(err, ErrInvalid) || h != (header{}) {
				t.Fatalf("%+v, %v", h, err)
			}
			return
		}
		if h.size <= 0 || fileBytes(h.size) < headerBytes+h.size || h.generation == 0 ||
			len(h.name) > maxName || len(h.path) > maxPath || strings.ContainsRune(h.name+h.path, 0) {
			t.Fatalf("%+v", h)
		}
		again := make([]byte, headerBytes)
		h.put(again)
		if back, err := parseHeader(again); err != nil || back != h {
			t.Fatalf("%+v became %+v, %v", h, back, err)
		}
		// Whatever the slots say, the table stays in its bounds.
		table, alive := tableOf(b), func(id process.ID) bool { return id.PID%2 == 0 }
		live := table.live(alive)
		if len(live) > slotCount || len(ownersText(h.owners(live))) > 500 {
			t.Fatalf("%d owners", len(live))
		}
		if i, err := table.join(h.creator, alive); (err == nil) != (len(live) < slotCount) {
			t.Fatalf("slot %d of %d taken ones: %v", i, len(live), err)
		}
	})
}

// Random joins, leaves and deaths against a list.
func TestOwnerTable(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	table := ownerTable(make([]byte, slotCount*slotBytes))
	model := map[int]process.ID{} // by slot
	dead := map[process.ID]bool{}
	alive := func(id process.ID) bool { return !dead[id] }
	next := uint32(0)
	for step := range 4000 {
		switch k := r.IntN(100); {
		case k < 75:
			next++
			id := process.ID{PID: next % 100, Start: uint64(next), Namespace: uint64(step)}
			i, err := table.join(id, alive)
			for slot, owner := range model {
				if dead[owner] {
					delete(model, slot)
				}
			}
			if _, taken := model[i]; (err != nil) != (len(model) == slotCount) || err == nil && taken {
				t.Fatalf("step %d: slot %d, %v, with %d owners", step, i, err, len(model))
			}
			if err != nil {
				if !errors.Is(err, ErrOwned) {
					t.Fatal(err)
				}
				break
			}
			model[i] = id
		case k < 85: // a random one, since maps have no order
			for i, id := range model {
				table.leave(i, process.ID{PID: id.PID, Start: id.Start + 1}) // of somebody else
				table.leave(i, id)
				delete(model, i)
				break
			}
		case k < 99:
			for _, id := range model {
				dead[id] = true
				break
			}
		default:
			var want []process.ID
			for i := range slotCount {
				if id, ok := model[i]; ok && !dead[id] {
					want = append(want, id)
				} else {
					delete(model, i)
				}
			}
			if got := table.live(alive); !slices.Equal(got, want) {
				t.Fatalf("step %d: %d live, want %d", step, len(got), len(want))
			}
		}
	}
}

func TestOwnerTableFull(t *testing.T) {
	table := ownerTable(make([]byte, slotCount*slotBytes))
	everybody := func(process.ID) bool { return true }
	for i := range slotCount {
		if slot, err := table.join(process.ID{PID: 1, Start: uint64(i)}, everybody); err != nil || slot != i {
			t.Fatalf("slot %d: %d, %v", i, slot, err)
		}
	}
	if _, err := table.join(process.ID{PID: 1}, everybody); !errors.Is(err, ErrOwned) || !strings.Contains(err.Error(), "1024") {
		t.Errorf("one more: %v", err)
	}
	if slot, err := table.join(process.ID{PID: 1}, func(id process.ID) bool { return id.Start != 7 }); err != nil || slot != 7 {
		t.Errorf("for a dead one: slot %d, %v", slot, err)
	}
}

func TestOwnersText(t *testing.T) {
	owners := []Owner{{PID: 1}, {PID: 2, Foreign: true}}
	if got := ownersText(owners); got != "2: process 1, process 2 of another PID namespace" {
		t.Error(got)
	}
	if got := ownersText(make([]Owner, 9)); got != "9: "+strings.Repeat("process 0, ", 8)+"…" {
		t.Error(got)
	}
}
