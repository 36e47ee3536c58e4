package device

import "testing"

type labelled struct {
	Stream
	label string
}

func (l *labelled) SetLabel(label string) { l.label = label }

func TestLabel(t *testing.T) {
	s := &labelled{}
	Label(StreamWrapper{s}, "copies")
	if s.label != "copies" {
		t.Errorf("a label behind a wrapper is %q", s.label)
	}
	Label(StreamWrapper{}, "copies") // of streams without one, nothing happens
	Label(nil, "copies")
}
