package timeline

import (
	"github.com/pinion-gpu/pinion/internal/live"
	"github.com/pinion-gpu/pinion/pinned"
	"github.com/pinion-gpu/pinion/tier"
	"github.com/pinion-gpu/pinion/vram"
)

// amounts are what memory held when it was last looked at. One goroutine uses them.
type amounts struct {
	last map[rowKey]int64
	now  map[rowKey]int64
}

// look records the amounts that have changed: of all pools and stores together that
// are on a device.
func (a *amounts) look(r *Recording) {
	if a.last == nil {
		a.last, a.now = map[rowKey]int64{}, map[rowKey]int64{}
	}
	clear(a.now)
	live.View(func(pools []*vram.Pool) {
		for _, p := range pools {
			s, id := p.Stats(), p.Device().Info().ID
			a.now[rowKey{id, "vram reserved"}] += s.Reserved.Current
			for _, u := range s.Purposes {
				if u.Allocated.Allocated > 0 {
					a.now[rowKey{id, "vram " + u.Purpose.String()}] += u.Allocated.Current
				}
			}
		}
	})
	live.View(func(pools []*pinned.Pool) {
		for _, p := range pools {
			s := p.Stats()
			a.now[rowKey{s.Device, "pinned reserved"}] += s.ReservedBytes + s.RegisteredBytes
			a.now[rowKey{s.Device, "pinned in use"}] += s.ActiveBytes
		}
	})
	live.View(func(stores []*tier.Store) {
		for _, s := range stores {
			id := s.Device().Info().ID
			for _, l := range s.Stats().Levels {
				a.now[rowKey{id, "tier " + l.Name}] += l.Used
			}
		}
	})
	for k := range a.last { // whose pools are gone
		if _, ok := a.now[k]; !ok {
			a.now[k] = 0
		}
	}
	at := r.now()
	for k, n := range a.now {
		if old, ok := a.last[k]; !ok || old != n {
			a.last[k] = n
			r.mu.Lock()
			r.store.put(record{kind: kindCounter, row: r.store.row(k.group, k.name), start: at, end: at, bytes: n})
			r.mu.Unlock()
		}
	}
}
