package process

// ID names one process of this system since it booted.
type ID struct {
	PID   uint32
	Start uint64 // the time it started, in the system's own unit
	// Namespace is the PID namespace that PID belongs to, zero where the
	// system has none: PID means something else, or nothing, in another.
	Namespace uint64
}

// Self returns the ID of this process. It fails with [errors.ErrUnsupported]
// on systems where start times cannot be read.
func Self() (ID, error) { return self() }

// Foreign reports whether the process belongs to another PID namespace than
// this one, so that nothing can be known about it here.
func (id ID) Foreign() bool { return id.Namespace != namespace() }

// Alive reports whether the process still runs. A process that was killed and is
// being cleared away, or waits for its parent to collect it, does not. In doubt
// (the process is [ID.Foreign], or the system does not tell) it is true.
func (id ID) Alive() bool {
	if id.PID == 0 || id.PID > 1<<31-1 {
		return false
	}
	return id.Foreign() || alive(id)
}
