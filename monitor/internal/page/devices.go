package page

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/pinion-gpu/pinion/device"
)

// deviceHealth is what a device says of its memory.
type deviceHealth struct {
	Device     string `json:"device"`
	DeviceName string `json:"device_name"`
	TotalBytes int64  `json:"total_bytes"`
	FreeBytes  int64  `json:"free_bytes"`
	Error      string `json:"error"` // instead of the bytes; empty: none
}

// A device is asked every askEvery, and a sample waits askWait for its answer.
const (
	askEvery = 2 * time.Second
	askWait  = 250 * time.Millisecond
)

// health asks devices for their memory. One that is gone, or hangs, is said.
type health struct {
	list call[[]device.Device]

	mu    sync.Mutex      // a goroutine of earlier watchers may still look
	known []device.Device // at the latest look
	asked map[string]*asked
}

// asked is the devices of one ID, which may have been opened more than once, and what
// they said.
type asked struct {
	call call[deviceHealth]
	at   time.Time // of the latest answer
	last deviceHealth

	mu   sync.Mutex
	open []device.Device
}

func newHealth(list func() []device.Device) *health {
	return &health{list: call[[]device.Device]{do: list}, asked: map[string]*asked{}}
}

// look returns what each device says, by ID.
func (h *health) look(ctx context.Context) []deviceHealth {
	h.mu.Lock()
	defer h.mu.Unlock()
	if list, err := h.list.get(ctx, askWait); err == nil {
		h.known = list
	} // else as before: somebody holds up the lists
	byID := map[string][]device.Device{}
	for _, d := range h.known {
		id := d.Info().ID
		byID[id] = append(byID[id], d)
	}
	all := []deviceHealth{}
	for id, open := range byID {
		a := h.asked[id]
		if a == nil {
			a = new(asked)
			a.call.do = a.ask
			h.asked[id] = a
		}
		all = append(all, a.look(ctx, open))
	}
	for id := range h.asked {
		if byID[id] == nil {
			delete(h.asked, id)
		}
	}
	slices.SortFunc(all, func(a, b deviceHealth) int { return cmp.Compare(a.Device, b.Device) })
	return all
}

// forget lets go of the devices, so that those that are closed can be freed.
func (h *health) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.known = nil
	clear(h.asked)
}

func (a *asked) look(ctx context.Context, open []device.Device) deviceHealth {
	if time.Since(a.at) < askEvery {
		return a.last
	}
	a.mu.Lock()
	a.open = open
	a.mu.Unlock()
	answer, err := a.call.get(ctx, askWait)
	if err != nil {
		info := open[0].Info()
		return deviceHealth{Device: info.ID, DeviceName: info.Name, Error: "it does not answer"}
	}
	a.last, a.at = answer, time.Now()
	return answer
}

// ask asks the first of the devices that is open.
func (a *asked) ask() deviceHealth {
	a.mu.Lock()
	open := a.open
	a.mu.Unlock()
	info := open[0].Info()
	d := deviceHealth{Device: info.ID, DeviceName: info.Name}
	for _, dev := range open {
		m, err := dev.Memory()
		if errors.Is(err, device.ErrClosed) {
			continue // a moment ago
		}
		if err != nil {
			d.Error = err.Error()
		}
		d.TotalBytes, d.FreeBytes = m.TotalBytes, m.FreeBytes
		break
	}
	return d
}
