package trace

import (
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const rmmHeader = "Thread,Time,Action,Pointer,Size,Stream\n"

func TestRead(t *testing.T) {
	for name, test := range map[string]struct {
		in     string
		format Format
		want   []Event
	}{
		"nothing": {"", JSONLines, nil},
		"json lines": {
			`{"op":"alloc","id":7,"bytes":4096,"stream":0}` + "\n" + `{"op":"free","id":7}`, JSONLines,
			[]Event{{ID: 7, Bytes: 4096}, {Op: Free, ID: 7, Bytes: 4096}},
		},
		"json with everything": {
			"\ufeff\r\n {\"x\":[1,{\"}\":\"]\\\"\"}],\"name\":\"\\u00e4 \\\"b\\\"\",\"purpose\":\"batch\",\"op\" : \"alloc\" ,\"id\":0,\"bytes\":1,\"stream\":3,\"time_seconds\":1.5,\"y\":-1e3}\r\n\r\n" +
				`{"op":"alloc","failed":true,"bytes":9,"id":null}` + "\n" +
				`{"op":"free","id":0,"time_seconds":2e0,"stream":4}` + "\n\n", JSONLines,
			[]Event{
				{ID: 0, Bytes: 1, Stream: 3, Name: `ä "b"`, Purpose: "batch", Time: 1500 * time.Millisecond},
				{Failed: true, Bytes: 9},
				{Op: Free, ID: 0, Bytes: 1, Stream: 4, Time: 2 * time.Second},
			},
		},
		"json free on the stream of its allocation": {
			`{"op":"alloc","id":1,"bytes":5,"stream":2}` + "\n" + `{"op":"free","id":1}`, JSONLines,
			[]Event{{ID: 1, Bytes: 5, Stream: 2}, {Op: Free, ID: 1, Bytes: 5, Stream: 2}},
		},
		"json with an id used again": {
			`{"op":"alloc","id":5,"bytes":1}` + "\n" + `{"op":"free","id":5}` + "\n" + `{"op":"alloc","id":5,"bytes":2}` + "\n" +
				`{"op":"alloc","id":6,"bytes":3}` + "\n" + `{"op":"free","id":5}` + "\n" + `{"op":"free","id":6}`, JSONLines,
			[]Event{{ID: 5, Bytes: 1}, {Op: Free, ID: 5, Bytes: 1}, {ID: 6, Bytes: 2}, {ID: 7, Bytes: 3}, {Op: Free, ID: 6, Bytes: 2}, {Op: Free, ID: 7, Bytes: 3}},
		},
		"csv": {
			rmmHeader + "1,23:59:59.999999,allocate,0x7f00,256,0x0\n1,0:00:00.500000,allocate,7f10,1,0x2\n2,00:00:01:000000,free,0x7f00,256,0\n" +
				"2,25:00:00,allocate failure,(nil),77,abc\n2,00:00:02,allocate,0x7f00,512,0x2\n1,,allocate,0x0,0,0x0\n1,,free,(nil),0,0x0\n1,,deallocate,0X7F10,1,2\n", CSV,
			[]Event{
				{ID: 1, Bytes: 256},
				{ID: 2, Bytes: 1, Stream: 1, Time: 500001 * time.Microsecond},
				{Op: Free, ID: 1, Bytes: 256, Time: 1000001 * time.Microsecond},
				{Failed: true, Bytes: 77, Stream: 2, Time: 1000001 * time.Microsecond},
				{ID: 3, Bytes: 512, Stream: 1, Time: 2000001 * time.Microsecond},
				{Op: Free, ID: 2, Bytes: 1, Stream: 1, Time: 2000001 * time.Microsecond},
			},
		},
		"csv in another order": {
			"size, POINTER ,\"Action\"\n5,10,\"allocate\"\n5,0x10,free\n", CSV,
			[]Event{{ID: 1, Bytes: 5}, {Op: Free, ID: 1, Bytes: 5}},
		},
		"csv with seconds": {
			rmmHeader + "1,1634567890.123456,allocate,0x10,5,0\n1,1634567890.5,free,0x10,5,0\n", CSV,
			[]Event{{ID: 1, Bytes: 5}, {Op: Free, ID: 1, Bytes: 5, Time: 376544 * time.Microsecond}},
		},
		"csv of nothing": {rmmHeader, CSV, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := NewReader(strings.NewReader(test.in), Options{})
			if err != nil {
				t.Fatal(err)
			}
			if r.Format() != test.format {
				t.Errorf("format %v, want %v", r.Format(), test.format)
			}
			got, err := readAll(test.in, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %+v\nwant %+v", got, test.want)
			}
			var zipped bytes.Buffer
			z := gzip.NewWriter(&zipped)
			z.Write([]byte(test.in))
			z.Close()
			if got, err = readAll(zipped.String(), Options{}); err != nil || !slices.Equal(got, test.want) {
				t.Errorf("from gzip: %+v, %v", got, err)
			}
		})
	}
}

// TestManyStreams: the memory for stream handles is bounded.
func TestManyStreams(t *testing.T) {
	var in strings.Builder
	in.WriteString(rmmHeader)
	for i := range maxStreams + 1 {
		fmt.Fprintf(&in, "1,2,allocate,%x,5,%d\n", i+1, i)
	}
	_, err := readAll(in.String(), Options{})
	if !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), fmt.Sprint("line ", maxStreams+2)) {
		t.Fatalf("got %v", err)
	}
}

type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }

func (f *failing) Write([]byte) (int, error) { return 0, f.err }

var update = flag.Bool("update", false, "write the golden files")

// TestGolden reads the files of testdata; each has its events as JSON lines
// beside it.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.golden")
	if err != nil || len(files) < 4 {
		t.Fatalf("%d golden files, %v", len(files), err)
	}
	for _, golden := range files {
		t.Run(filepath.Base(golden), func(t *testing.T) {
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			r, err := Open(strings.TrimSuffix(golden, ".golden"), Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			got := write(t, func(yield func(Event) bool) {
				for e, err := range r.All() {
					if err != nil {
						t.Fatal(err)
					}
					if !yield(e) {
						return
					}
				}
			})
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != strings.ReplaceAll(string(want), "\r\n", "\n") {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}
