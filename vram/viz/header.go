package viz

import (
	"encoding/json"
	"time"

	"github.com/pinion-gpu/pinion/vram"
)

// header is what the text formats say of a snapshot.
type header struct {
	Device        string      `json:"device"`
	Start         time.Time   `json:"start"` // of the pool, RFC 3339: times count from there
	Time          json.Number `json:"time_seconds"`
	Events        int         `json:"events"`
	DroppedEvents int64       `json:"dropped_events"`
	Allocated     int64       `json:"allocated_bytes"`
	Reserved      int64       `json:"reserved_bytes"`
	Budget        int64       `json:"budget_bytes,omitempty"`
	Chunk         int64       `json:"chunk_bytes,omitempty"`
}

func snapshotHeader(s vram.Snapshot) header {
	return header{
		Device:        text(s.Device),
		Start:         s.Start.UTC(),
		Time:          seconds(s.Time.Sub(s.Start)),
		Events:        len(s.Events),
		DroppedEvents: s.Dropped,
		Allocated:     s.Stats.Allocated.Current,
		Reserved:      s.Stats.Reserved.Current,
		Budget:        s.Stats.Budget,
		Chunk:         s.Stats.ChunkBytes,
	}
}
