package local

import "github.com/pinion-gpu/pinion/parallel/internal/hosted"

// engine is one rank of a hub.
type engine struct {
	hub  *hub
	rank int
}

func (e *engine) Rank() int { return e.rank }
func (e *engine) Size() int { return e.hub.size }

// Run implements [hosted.Engine].
func (e *engine) Run(ops []hosted.Op) error {
	if k := ops[0].Kind; k == hosted.In || k == hosted.Out {
		return e.hub.transfer(e.rank, ops)
	}
	for _, op := range ops {
		if _, err := e.hub.meet(e.rank, call{op: op}); err != nil {
			return err
		}
	}
	return nil
}

// Barrier implements [hosted.Engine].
func (e *engine) Barrier() error {
	_, err := e.hub.meet(e.rank, call{what: barrier})
	return err
}

// Split implements [hosted.Engine].
func (e *engine) Split(color, key int) (hosted.Engine, error) {
	m, err := e.hub.meet(e.rank, call{what: split, color: color, key: key})
	if err != nil || m.parts[e.rank] == nil {
		return nil, err
	}
	return m.parts[e.rank], nil
}

// Abort implements [hosted.Engine].
func (e *engine) Abort(reason error) { e.hub.leave(e.rank, reason) }

// Close implements [hosted.Engine].
func (e *engine) Close() error { return nil }
