package probe

import (
	"errors"
	"testing"
	"time"
)

type list []Span

func (l *list) Span(_ Row, s Span) { *l = append(*l, s) }

func TestListen(t *testing.T) {
	var row Row
	Tell(row, Span{})
	Since(time.Now(), row, Span{})
	if On() || !Now().IsZero() {
		t.Error("nobody listens, and somebody does")
	}
	var heard, other list
	stop, err := Listen(&heard)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(&other); !errors.Is(err, ErrTaken) {
		t.Errorf("a second listener: %v", err)
	}
	Tell(row, Span{Name: "a"})
	start := Now()
	Since(start, row, Span{Name: "b"})
	Since(time.Time{}, row, Span{Name: "begun while nobody listened"})
	stop()
	Tell(row, Span{Name: "c"})
	if len(heard) != 2 || heard[0].Name != "a" || heard[1].Name != "b" || heard[1].Start != start || heard[1].End.Before(start) {
		t.Errorf("heard %+v", heard)
	}
	stopOther, err := Listen(&other)
	if err != nil {
		t.Fatal(err)
	}
	stop() // of one that stopped: nothing happens
	if !On() {
		t.Error("the second stop of one listener stopped another")
	}
	stopOther()
}

// What a package pays while nobody listens.
func BenchmarkOff(b *testing.B) {
	for b.Loop() {
		Since(Now(), Row{"loader", "worker 1"}, Span{Name: "sample", Bytes: 1})
	}
}
