package viz

import (
	"bufio"
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/vram"
	"github.com/pinion-gpu/pinion/vram/trace"
)

func jsonBytes(t *testing.T, s vram.Snapshot) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := WriteJSON(&out, s); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestJSONRoundTrip wants the reader of traces to give what the users of the
// pool did.
func TestJSONRoundTrip(t *testing.T) {
	snapshots(func(name string, m *model, s vram.Snapshot) bool {
		return t.Run(name, func(t *testing.T) {
			data := jsonBytes(t, s)
			want := expected(m, s)
			if len(want) == 0 {
				if !bytes.HasPrefix(data, []byte(`{"snapshot":`)) || bytes.Count(data, []byte("\n")) != 1 {
					t.Errorf("of nothing: %s", data)
				}
				return
			}
			r, err := trace.NewReader(bytes.NewReader(data), trace.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if r.Format() != trace.JSONLines {
				t.Errorf("format %s", r.Format())
			}
			var got []trace.Event
			for e, err := range r.All() {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, e)
			}
			if !slices.Equal(got, want) {
				t.Errorf("got\n%+v\nwant\n%+v", got, want)
			}
		})
	})
}

// expected is the trace of a snapshot, from the whole history of the model.
func expected(m *model, s vram.Snapshot) (out []trace.Event) {
	first := len(m.events) - len(s.Events)
	live := map[device.Ptr]trace.Event{} // with address
	var id uint64
	alloc := func(e vram.Event, at time.Duration) trace.Event {
		id++
		return trace.Event{Op: trace.Alloc, ID: id, Bytes: e.Asked, Stream: int(e.Stream), Time: at,
			Purpose: e.Purpose.String(), Name: strings.ToValidUTF8(e.Name, "\ufffd")}
	}
	before := map[device.Ptr]vram.Event{}
	for _, e := range m.events[:first] {
		switch e.Kind {
		case vram.EventAlloc:
			before[e.Address] = e
		case vram.EventFree:
			delete(before, e.Address)
		}
	}
	var addresses []device.Ptr
	for p := range before {
		addresses = append(addresses, p)
	}
	slices.Sort(addresses)
	for _, p := range addresses {
		out = append(out, alloc(before[p], 0))
		live[p] = out[len(out)-1]
	}
	for _, e := range s.Events {
		switch e.Kind {
		case vram.EventAlloc:
			out = append(out, alloc(e, e.Time))
			live[e.Address] = out[len(out)-1]
		case vram.EventFree:
			a := live[e.Address]
			out = append(out, trace.Event{Op: trace.Free, ID: a.ID, Bytes: a.Bytes, Stream: a.Stream, Time: e.Time})
		case vram.EventOutOfMemory:
			failed := alloc(e, e.Time)
			id--
			failed.ID, failed.Failed = 0, true
			out = append(out, failed)
		}
	}
	return out
}

// TestJSONKeys wants every event somewhere in the file.
func TestJSONKeys(t *testing.T) {
	snapshots(func(name string, m *model, s vram.Snapshot) bool {
		return t.Run(name, func(t *testing.T) {
			events := 0
			lines := bufio.NewScanner(bytes.NewReader(jsonBytes(t, s)))
			lines.Buffer(nil, 1<<20)
			for n := 0; lines.Scan(); n++ {
				var line struct {
					Snapshot *struct {
						Device        string
						Start         time.Time
						DroppedEvents int64 `json:"dropped_events"`
						Events        int
					}
					Op, Address   string
					BeforeHistory bool        `json:"before_history"`
					Rounded       int64       `json:"rounded_bytes"`
					Free          int64       `json:"free_bytes"`
					Failed        bool        `json:"failed"`
					Pool          []poolEvent `json:"pool_events"`
					After         []poolEvent `json:"pool_events_after"`
				}
				if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
					t.Fatalf("%v: %s", err, lines.Bytes())
				}
				if (line.Snapshot != nil) != (n == 0) {
					t.Fatalf("line %d has the header: %v", n+1, line.Snapshot != nil)
				}
				if h := line.Snapshot; h != nil && (h.Device != "cuda:1" || !h.Start.Equal(start) || h.DroppedEvents != s.Dropped || h.Events != len(s.Events)) {
					t.Errorf("header %+v", h)
				}
				if line.Op != "" && !line.BeforeHistory {
					events++
				}
				events += len(line.Pool) + len(line.After)
				if line.Failed && line.Free != 12345 {
					t.Errorf("a failure with %d bytes free", line.Free)
				}
				if line.Op == "alloc" && !line.Failed && (line.Rounded%512 != 0 || line.Rounded == 0 || !strings.HasPrefix(line.Address, "0x7f")) {
					t.Errorf("%s", lines.Bytes())
				}
			}
			if lines.Err() != nil || events != len(s.Events) {
				t.Errorf("%d events in the file, want %d; %v", events, len(s.Events), lines.Err())
			}
		})
	})
}

// TestJSONLongLine wants a line that readers take, however much the pool did
// for itself.
func TestJSONLongLine(t *testing.T) {
	own := slices.Repeat([]vram.Event{{Kind: vram.EventUnmap, Time: 100 * time.Hour, Address: 1 << 62, Bytes: 1 << 62}}, 20000)
	events := append(own[:len(own):len(own)], vram.Event{Kind: vram.EventAlloc, Address: base, Bytes: 512})
	events = append(events, own...)
	data := jsonBytes(t, vram.Snapshot{Events: events})
	if n := bytes.Count(data, []byte(`"unmap"`)); n != 2*maxPoolEvents {
		t.Errorf("%d events of the pool", n)
	}
	if !bytes.Contains(data, []byte(`"pool_events_left_out":31808`)) {
		t.Error("it does not say how many are left out")
	}
	r, err := trace.NewReader(bytes.NewReader(data), trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if e, err := r.Next(); err != nil || e.Bytes != 512 {
		t.Errorf("%+v, %v", e, err)
	}
}
