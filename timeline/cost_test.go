package timeline

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/photos"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/internal/probe"
	"github.com/pinion-gpu/pinion/internal/stats"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/loader"
)

// What a batch costs with a recording and without one: the median over pairs of a stretch
// of batches of each, in one process, since processes differ by more. The loader without is
// on the plain device, and nobody listens, as in a program that records nothing. Of samples in memory, and
// of the photos in the folder that PINION_PHOTOS names.
//
//	on-µs, off-µs  a batch
//	ratio          of the two, in half of the pairs between ratio-low and ratio-high
//	cpu-ratio      of the time of processors, likewise: where they are the limit, such as
//	               with photos, the same on a host that nobody else uses
func BenchmarkFeed(b *testing.B) {
	b.Run("memory", func(b *testing.B) {
		benchmarkFeed(b, func() dataset.Dataset { return images(b, 256) }, loader.Options{Batch: 16}, 4096)
	})
	b.Run("photos", func(b *testing.B) {
		folder := os.Getenv("PINION_PHOTOS")
		if folder == "" {
			b.Skip("PINION_PHOTOS names no folder")
		}
		benchmarkFeed(b, func() dataset.Dataset {
			return testkit.Must(photos.Open(context.Background(), folder, photos.Options{Transform: imaging.CenterCrop(224)}))(b)
		}, loader.Options{Batch: 64}, 128)
	})
}

// benchmarkFeed compares stretches of so many batches: what waits finished in a loader
// between turns is few of them.
func benchmarkFeed(b *testing.B, open func() dataset.Dataset, o loader.Options, stretch int) {
	r, err := Start(Options{})
	testkit.OK(b, err)
	defer r.Stop()
	o.Epochs = 1 << 20
	dev := devicetest.Open(b)
	var loaders [2]*loader.Loader
	for on, dev := range []device.Device{dev, r.Wrap(dev)} {
		l, err := loader.New(dev, open(), o)
		testkit.OK(b, err)
		defer l.Close()
		loaders[on] = l
	}
	turn := func(on int) (took, busy float64) {
		r.on.Store(on == 1)
		if r.deaf(); on == 1 {
			r.deaf = testkit.Must(probe.Listen(r))(b)
		}
		began, before := time.Now(), processors()
		for range stretch {
			batch, err := loaders[on].Next(context.Background())
			testkit.OK(b, err)
			testkit.OK(b, batch.Release())
		}
		return time.Since(began).Seconds(), processors() - before
	}
	for i := range 6 { // they find their pace
		turn(i % 2)
	}
	var ratios, busy []float64
	var times [2][]float64
	for b.Loop() {
		var took, used [2]float64
		for k := range 2 {
			on := (len(ratios) + k) % 2
			took[on], used[on] = turn(on)
			times[on] = append(times[on], took[on])
		}
		ratios, busy = append(ratios, took[1]/took[0]), append(busy, used[1]/used[0])
	}
	for on, name := range []string{"off-µs", "on-µs"} {
		b.ReportMetric(stats.Median(times[on])/float64(stretch)*1e6, name)
	}
	for name, list := range map[string][]float64{"ratio": ratios, "cpu-ratio": busy} {
		slices.Sort(list)
		b.ReportMetric(stats.Median(list), name)
		b.ReportMetric(list[len(list)/4], name+"-low")
		b.ReportMetric(list[len(list)*3/4], name+"-high")
	}
	b.ReportMetric(0, "ns/op")
}

// processors is the seconds for which this process has had processors, as Linux counts them.
func processors() float64 {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return math.NaN()
	}
	// Behind the name, in hundredths.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	return (user + system) / 100
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
