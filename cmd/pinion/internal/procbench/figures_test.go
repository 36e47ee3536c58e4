//go:build unix

package procbench

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
)

func TestRow(t *testing.T) {
	private := &samples{
		alone:    [][]time.Duration{{10, 20, 30}, {40, 40, 40}},
		together: [][]time.Duration{{50, 50, 50}, {60, 60, 60}},
		totals:   []float64{1}, overlaps: []float64{1},
	}
	s := &samples{
		alone:    [][]time.Duration{{40, 40, 40}, {32, 50, 50}},
		together: [][]time.Duration{{100, 50, 50}, {120, 80, 120}},
		totals:   []float64{3, 1, 2}, overlaps: []float64{0.5, 1, 1, 1},
	}
	got := s.row(copyID{Shared, true}, private, []time.Duration{7, 9})
	if got.Path != Shared || got.Direction != "d2h" || got.First != (Times{8, 7, 9}) ||
		got.Alone != (Times{40, 32, 50}) || got.Together != (Times{90, 50, 120}) || got.Total != 2 || got.Overlap != 1 {
		t.Errorf("%+v", got)
	}
	if got.AloneOfPrivate != 0.5 || got.TogetherOfPrivate != 0.5 || got.Processes[1].AloneOfPrivate != 0.8 ||
		got.Processes[0].TogetherOfPrivate != 1 || got.Processes[1].Together != (Times{120, 80, 120}) {
		t.Errorf("%+v", got)
	}
	if alone := s.row(copyID{Shared, true}, nil, []time.Duration{7}); alone.AloneOfPrivate != 0 || alone.Processes[0].TogetherOfPrivate != 0 {
		t.Errorf("of nothing: %+v", alone)
	}
}

func TestTogether(t *testing.T) {
	replies := []reply{
		{Took: 10, Begin: 0, Start: 10, End: 30, Copies: 3},
		{Took: 20, Begin: 15, Start: 20, End: 45, Copies: 6},
	}
	// The first copies from 10 to 20 and the other begins at 15; the second
	// copies from 20 to 40 and the other ends at 30.
	if got := overlaps(replies); !slices.Equal(got, []float64{0.5, 0.5}) {
		t.Errorf("overlaps %v", got)
	}
	if got := overlaps(replies[:1]); !slices.Equal(got, []float64{1}) {
		t.Errorf("of one process: %v", got)
	}
	if got := overlaps([]reply{replies[0], {Took: 1, Begin: 50, Start: 60, End: 70}}); !slices.Equal(got, []float64{0, 0}) {
		t.Errorf("one after the other: %v", got)
	}
	if got := total(replies, 100); got != 3*100/30e-9+6*100/30e-9 {
		t.Errorf("%g bytes a second", got)
	}
}

func TestPattern(t *testing.T) {
	b := make([]byte, 3*compareBytes+5)
	fill(b, 7)
	for _, cut := range []int{0, 1, compareBytes, compareBytes + 1, len(b)} {
		p := newPattern(7)
		if err := errors.Join(p.next(b[:cut]), p.next(b[cut:])); err != nil {
			t.Errorf("in two at %d: %v", cut, err)
		}
	}
	if newPattern(8).next(b) == nil {
		t.Error("two seeds have the same bytes")
	}
	for _, at := range []int{0, compareBytes, len(b) - 1} {
		b[at]++
		if newPattern(7).next(b) == nil {
			t.Errorf("a wrong byte at %d is not found", at)
		}
		b[at]--
	}
}

// An error keeps its text and its sentinel on the way.
func TestErrorsTravel(t *testing.T) {
	for _, sentinel := range codes {
		var b bytes.Buffer
		if err := writeFrame(&b, failure(fmt.Errorf("7 bytes: %w", sentinel))); err != nil {
			t.Fatal(err)
		}
		b.WriteString("rest")
		var r reply
		if err := readFrame(&b, &r); err != nil {
			t.Fatal(err)
		}
		if err := r.err(); !errors.Is(err, sentinel) || err.Error() != "7 bytes: "+sentinel.Error() {
			t.Errorf("%v, want %v", err, sentinel)
		}
		if b.String() != "rest" {
			t.Errorf("%q is left", b.String())
		}
	}
	if err := failure(io.EOF).err(); err == nil || errors.Is(err, device.ErrPinLimit) {
		t.Errorf("another error is %v", err)
	}
	if err := (reply{Took: 1}).err(); err != nil {
		t.Error(err)
	}
	if err := writeFrame(io.Discard, reply{Error: strings.Repeat("x", maxFrame)}); err == nil {
		t.Error("a message that the other side will not read was sent")
	}
}

func FuzzReadFrame(f *testing.F) {
	var b bytes.Buffer
	if err := writeFrame(&b, request{Op: opOpen, Device: "host"}); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte{})
	f.Add([]byte{2, 0, 0, 0, '{'})
	f.Add([]byte{255, 255, 255, 255, '{', '}'})
	f.Fuzz(func(t *testing.T, b []byte) {
		var req request
		err := readFrame(bytes.NewReader(b), &req)
		if (err == io.EOF) != (len(b) == 0) {
			t.Errorf("%q: %v", b, err)
		}
		if err != nil {
			return
		}
		var again bytes.Buffer
		if err := writeFrame(&again, req); err != nil {
			return // it grows when it is written in full
		}
		var same request
		if err := readFrame(&again, &same); err != nil || same != req {
			t.Errorf("%+v became %+v, %v", req, same, err)
		}
	})
}

func TestTail(t *testing.T) {
	var said tail
	for i := range 3000 {
		fmt.Fprintf(&said, "line %d\r\n\n", i)
	}
	if got := said.text(); !strings.HasSuffix(got, " | line 2998 | line 2999") || len(got) > tailBytes {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}
