package device

// Label says what a stream is for, such as "loader copies", to people who look at its
// work. A stream that shows its work to somebody has a method SetLabel(string), which
// Label calls; for others it does nothing.
func Label(s Stream, label string) {
	if l, ok := AsStream[interface{ SetLabel(string) }](s); ok {
		l.SetLabel(label)
	}
}
