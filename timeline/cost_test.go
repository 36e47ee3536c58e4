package timeline

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/probe"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/loader"
)

// What a batch costs with a recording and without.
func BenchmarkFeed(b *testing.B) {
	for _, on := range []bool{false, true} {
		name := "off"
		if on {
			name = "on"
		}
		b.Run(name, func(b *testing.B) {
			dev := devicetest.Open(b)
			if on {
				r, err := Start(Options{})
				testkit.OK(b, err)
				defer r.Stop()
				dev = r.Wrap(dev)
			}
			l, err := loader.New(dev, images(b, 256), loader.Options{Batch: 16, Epochs: 1 << 20})
			testkit.OK(b, err)
			defer l.Close()
			for b.Loop() {
				batch, err := l.Next(context.Background())
				if err == io.EOF {
					b.Fatal("the end")
				}
				testkit.OK(b, err)
				testkit.OK(b, batch.Release())
			}
		})
	}
}

// What a copy costs its caller, with the events and the stage around it that a loader
// has: by hand, without a recording, with one that is over, and with one that is on.
func BenchmarkCopy(b *testing.B) {
	for _, name := range []string{"by hand", "off", "over", "on"} {
		b.Run(name, func(b *testing.B) {
			dev := devicetest.Open(b)
			if name == "over" || name == "on" {
				r, err := Start(Options{})
				testkit.OK(b, err)
				defer r.Stop()
				dev = r.Wrap(dev)
				if name == "over" {
					r.Stop()
				}
			}
			s := testkit.Must(dev.NewStream())(b)
			defer s.Close()
			p := testkit.Must(dev.Alloc(4096))(b)
			defer dev.Free(p)
			begin, end := testkit.Must(dev.NewEvent(0))(b), testkit.Must(dev.NewEvent(0))(b)
			host, row := make([]byte, 4096), probe.Row{Group: "loader", Name: "upload"}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				var err error
				if name == "by hand" {
					err = errors.Join(s.Record(begin), s.CopyH2D(p, host), s.Record(end))
				} else {
					mark := probe.Begin(row, "upload")
					err = device.Timed(s, begin, end, func() error { return s.CopyH2D(p, host) })
					mark.End(row, probe.Span{Name: "upload", Batch: i + 1})
				}
				if i%8 == 7 && err == nil {
					err = s.Synchronize()
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// What writing a full recording takes: a million pieces of work with their calls.
func BenchmarkWrite(b *testing.B) {
	r, err := Start(Options{Every: time.Hour})
	testkit.OK(b, err)
	defer r.Stop()
	calls, lane, name := r.row(callsTo("cuda:0"), "calls"), r.row("cuda:0", "stream 1"), r.name("copy h2d")
	for i := range int64(1 << 20) {
		at := i * 10_000
		r.put(record{kind: kindCall, engine: H2D, timed: true, row: calls, lane: lane, name: name, start: at, end: at + 2000, from: at + 3000, to: at + 9000, bytes: 1 << 20})
	}
	b.ReportAllocs()
	for b.Loop() {
		n := new(counted)
		testkit.OK(b, r.Write(n))
		b.SetBytes(int64(*n))
	}
}

type counted int64

func (c *counted) Write(b []byte) (int, error) {
	*c += counted(len(b))
	return len(b), nil
}

// What a look at the newest spans of a full recording takes.
func BenchmarkSpans(b *testing.B) {
	r, err := Start(Options{Every: time.Hour})
	testkit.OK(b, err)
	defer r.Stop()
	row, name := r.row("loader", "worker 1"), r.name("samples")
	for i := range int64(1 << 20) {
		r.put(record{row: row, name: name, start: i * 1000, end: i*1000 + 500})
	}
	b.ReportAllocs()
	for b.Loop() {
		if n := len(r.Spans(0, 5000)); n != 5000 {
			b.Fatal(n)
		}
	}
}
