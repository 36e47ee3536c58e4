package device

// Timed queues begin, what queue queues on s, and end: marks with timing, for
// [Event.Since]. begin may be nil. It is the same as calling [Stream.Record], queue and
// Record, except that a stream that shows its work to somebody takes the times of that
// work from end, and needs no events of its own: such a stream has a method Timed. An
// error of queue is returned, and end is not queued then.
func Timed(s Stream, begin, end Event, queue func() error) error {
	if t, ok := AsStream[interface {
		Timed(begin, end Event, queue func() error) error
	}](s); ok {
		return t.Timed(begin, end, queue)
	}
	if begin != nil {
		if err := s.Record(begin); err != nil {
			return err
		}
	}
	if err := queue(); err != nil {
		return err
	}
	return s.Record(end)
}
