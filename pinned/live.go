package pinned

// BufferInfo describes a buffer that was not freed, or memory of a caller's own that
// was not unregistered.
type BufferInfo struct {
	Serial     int64 // counts up in a pool; buffers and registrations count apart
	Bytes      int64 // asked for
	Registered bool  // by [Pool.Register]

	// Stack is where it was asked for, as program counters for
	// runtime.CallersFrames. It is there only if somebody looked for leaks then.
	Stack []uintptr
}

// Live lists what was handed out and not freed, and what was registered and not
// unregistered, in no order.
func (p *Pool) Live() (list []BufferInfo) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for seg := range p.segments {
		for b := seg.first; b != nil; b = b.next {
			if b.requested > 0 {
				list = append(list, BufferInfo{Serial: b.serial, Bytes: b.requested, Stack: b.stack})
			}
		}
	}
	for r := range p.callers {
		list = append(list, BufferInfo{Serial: r.serial, Bytes: int64(len(r.mem)), Registered: true, Stack: r.stack})
	}
	return list
}
