package trace

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/internal/pickle"
)

type dict = map[string]any

func pickled(t testing.TB, v any) string {
	t.Helper()
	var b bytes.Buffer
	if err := pickle.Encode(&b, v); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// entries makes a device trace; times are microseconds from 1000 on.
func traceOf(entries ...dict) []any {
	var out []any
	for i, e := range entries {
		if _, ok := e["time_us"]; !ok {
			e["time_us"] = 1000 + i
		}
		out = append(out, e)
	}
	return out
}

func ent(action string, addr, size int) dict {
	return dict{"action": action, "addr": addr, "size": size, "stream": 0}
}

func segmentOf(device, address int, blocks ...any) dict {
	return dict{"device": device, "address": address, "stream": 9, "blocks": blocks}
}

func us(n int) time.Duration { return time.Duration(n) * time.Microsecond }

func TestSnapshot(t *testing.T) {
	active := func(address, size, requested int) dict {
		return dict{"address": address, "size": size, "requested_size": requested, "state": "active_allocated"}
	}
	for name, test := range map[string]struct {
		in   any
		o    Options
		want []Event
	}{
		"trace": {
			dict{"segments": []any{}, "device_traces": []any{traceOf(
				ent("segment_alloc", 4096, 2<<20), ent("alloc", 4096, 100), ent("free_requested", 4096, 100),
				ent("snapshot", 0, 0), ent("free_completed", 4096, 100), ent("alloc", 4096, 200), ent("segment_free", 8192, 1),
			)}}, Options{},
			[]Event{{ID: 1, Bytes: 100}, {Op: Free, ID: 1, Bytes: 100, Time: us(3)}, {ID: 2, Bytes: 200, Time: us(4)}},
		},
		"free that is never completed": {
			dict{"device_traces": []any{traceOf(
				ent("alloc", 1, 10), ent("free_requested", 1, 10), ent("alloc", 2, 20),
				ent("alloc", 1, 11), ent("free_requested", 1, 11),
			)}}, Options{},
			[]Event{{ID: 1, Bytes: 10}, {Op: Free, ID: 1, Bytes: 10, Time: us(1)}, {ID: 2, Bytes: 20, Time: us(2)},
				{ID: 3, Bytes: 11, Time: us(3)}, {Op: Free, ID: 3, Bytes: 11, Time: us(4)}},
		},
		"free that another one's completion does not complete": {
			dict{"device_traces": []any{traceOf(
				ent("alloc", 1, 10), ent("free_requested", 1, 10), ent("alloc", 1, 11), ent("free_completed", 1, 11),
			)}}, Options{},
			[]Event{{ID: 1, Bytes: 10}, {Op: Free, ID: 1, Bytes: 10, Time: us(1)}, {ID: 2, Bytes: 11, Time: us(2)}, {Op: Free, ID: 2, Bytes: 11, Time: us(3)}},
		},
		"late ring": {
			// 30 is freed and 31 requested to be without an allocation; 10 and
			// 40 are only in the segments; 20 is in both.
			dict{"segments": []any{
				segmentOf(0, 10, active(10, 512, 5), dict{"address": 522, "size": 100, "state": "inactive"}, active(20, 512, 7)),
				segmentOf(0, 40, dict{"size": 8, "state": "active_pending_free"}, dict{"size": 9, "requested_size": 0, "state": "active_awaiting_free"}),
				segmentOf(1, 70, active(70, 512, 5)),
			}, "device_traces": []any{traceOf(
				ent("free_completed", 30, 3), ent("alloc", 20, 7), ent("free_requested", 31, 4), ent("alloc", 30, 5),
			), []any{}}}, Options{},
			[]Event{
				{ID: 1, Bytes: 5, Stream: 0}, {ID: 2, Bytes: 3, Stream: 1}, {ID: 3, Bytes: 4, Stream: 1}, {ID: 4, Bytes: 8}, {ID: 5, Bytes: 9},
				{Op: Free, ID: 2, Bytes: 3, Stream: 1}, {ID: 6, Bytes: 7, Stream: 1, Time: us(1)},
				{Op: Free, ID: 3, Bytes: 4, Stream: 1, Time: us(2)}, {ID: 7, Bytes: 5, Stream: 1, Time: us(3)},
			},
		},
		"out of memory, streams and names": {
			dict{"device_traces": []any{traceOf(
				dict{"action": "alloc", "addr": uint64(1) << 63, "size": 1, "stream": 94371840, "user_metadata": "attention", "time_us": 5},
				dict{"action": "oom", "device_free": 0, "size": 1 << 50, "stream": 0, "time_us": 3},
				dict{"action": "something new", "stream": "x"},
			)}}, Options{},
			[]Event{{ID: 1, Bytes: 1, Name: "attention"}, {Failed: true, Bytes: 1 << 50, Stream: 1}},
		},
		"device with the most entries": {
			dict{"device_traces": []any{traceOf(ent("alloc", 1, 1)), traceOf(ent("alloc", 1, 2), ent("alloc", 2, 3)), []any{}}}, Options{},
			[]Event{{ID: 1, Bytes: 2}, {ID: 2, Bytes: 3, Time: us(1)}},
		},
		"chosen device": {
			dict{"device_traces": []any{traceOf(ent("alloc", 1, 1)), traceOf(ent("alloc", 1, 2), ent("alloc", 2, 3))}}, Options{Device: new(int)},
			[]Event{{ID: 1, Bytes: 1}},
		},
		"no trace": {
			dict{"segments": []any{segmentOf(0, 1, active(1, 512, 9)), segmentOf(2, 3, active(3, 512, 4), active(4, 512, 6))}, "device_traces": []any{[]any{}}}, Options{},
			[]Event{{ID: 1, Bytes: 4}, {ID: 2, Bytes: 6}},
		},
		"segments alone": {[]any{segmentOf(0, 1, active(1, 512, 9))}, Options{}, []Event{{ID: 1, Bytes: 9}}},
		"nothing":        {dict{"segments": []any{}, "device_traces": []any{}}, Options{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := readAll(pickled(t, test.in), test.o)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, test.want) {
				t.Fatalf("got %+v\nwant %+v", got, test.want)
			}
		})
	}
}

func TestSnapshotErrors(t *testing.T) {
	one := func(entries ...dict) any { return dict{"device_traces": []any{traceOf(entries...)}} }
	device := func(n int) Options { return Options{Device: &n} }
	for name, test := range map[string]struct {
		in    string
		o     Options
		is    error
		holds string
	}{
		"code":            {"\x80\x02cos\nsystem\n.", Options{}, ErrMalformed, "GLOBAL"},
		"cut":             {"\x80\x02", Options{}, ErrMalformed, ""},
		"too large":       {pickled(t, one()), Options{MaxSnapshotBytes: 5}, ErrTooLarge, "more than 5 B"},
		"number":          {pickled(t, 7), Options{}, ErrFormat, "int64"},
		"other dict":      {pickled(t, dict{"model": 1}), Options{}, ErrFormat, "neither"},
		"trace of none":   {pickled(t, dict{"device_traces": []any{nil}}), Options{}, ErrMalformed, "device_traces[0] is a <nil>"},
		"entry of none":   {pickled(t, dict{"device_traces": []any{[]any{nil}}}), Options{}, ErrMalformed, "device_traces[0][0]"},
		"no address":      {pickled(t, one(ent("alloc", 1, 1), dict{"action": "alloc", "size": 1})), Options{}, ErrMalformed, "device_traces[0][1]: alloc without addr"},
		"no size":         {pickled(t, one(dict{"action": "alloc", "addr": 1})), Options{}, ErrMalformed, "without a positive size"},
		"size 0":          {pickled(t, one(ent("alloc", 1, 0))), Options{}, ErrMalformed, "without a positive size"},
		"negative size":   {pickled(t, one(ent("alloc", 1, -1))), Options{}, ErrMalformed, "without a positive size"},
		"double alloc":    {pickled(t, one(ent("alloc", 1, 1), ent("alloc", 1, 1))), Options{}, ErrMalformed, "device_traces[0][1]: the block is already live"},
		"double free":     {pickled(t, one(ent("alloc", 1, 1), ent("free_completed", 1, 1), ent("free_completed", 1, 1))), Options{}, ErrMalformed, "device_traces[0][2]: a free"},
		"bad segment":     {pickled(t, []any{7}), Options{}, ErrMalformed, "segments[0]"},
		"segment twice":   {pickled(t, []any{segmentOf(0, 1), segmentOf(0, 1)}), Options{}, ErrMalformed, "segments[1]"},
		"bad block":       {pickled(t, []any{segmentOf(0, 1, 7)}), Options{}, ErrMalformed, "segments[0].blocks[0]"},
		"block twice":     {pickled(t, []any{segmentOf(0, 1, dict{"address": 1, "size": 1, "state": "active"}, dict{"address": 1, "size": 1, "state": "active"})}), Options{}, ErrMalformed, "0x1"},
		"far device":      {pickled(t, []any{dict{"address": 1, "device": 1 << 40}}), Options{}, ErrMalformed, "device 1099511627776"},
		"no such device":  {pickled(t, one(ent("alloc", 1, 1))), device(1), ErrArgument, "no device 1: the snapshot has 1"},
		"negative device": {pickled(t, one()), device(-1), ErrArgument, "no device -1"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := NewReader(strings.NewReader(test.in), test.o)
			if !errors.Is(err, test.is) {
				t.Fatalf("got %v, want %v", err, test.is)
			}
			if !strings.Contains(err.Error(), test.holds) {
				t.Fatalf("%q does not say %q", err, test.holds)
			}
		})
	}
}
