package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/transfer"
)

// The statistics are what was done: copies of random kinds and sizes, some of which
// fail or are cancelled before they begin.
func TestStats(t *testing.T) {
	const most = 60_000
	const stageAbove = 12_000
	f := open(t)
	f.NeedsPinned(1 << 20)
	e := f.Engine(transfer.Options{Copiers: 2, Slots: 3, SlotBytes: 8192, StageAbove: stageAbove})
	at := f.Alloc(2 * most)
	f.Memset(at, 0, 2*most)
	pinned := f.PinnedMemory(most)
	file := f.NewFile(t.TempDir(), make([]byte, most))
	out, err := os.Create(t.TempDir() + "/out")
	f.OK(err)
	defer out.Close()

	type key struct{ direction, path string }
	want := map[key]transfer.Traffic{}
	moved := func(direction, path string, n int64, err error) {
		k := key{direction, path}
		w := want[k]
		w.Direction, w.Path = direction, path
		w.Copies++
		if err != nil {
			w.Failed++
		} else {
			w.Bytes += n
		}
		want[k] = w
	}
	r := rand.New(rand.NewPCG(5, 6))
	ended, end := context.WithCancel(ctx)
	end()
	for range 300 {
		n := 1 + r.Int64N(most)
		toHost := r.IntN(2) == 0
		direction := "h2d"
		if toHost {
			direction = "d2h"
		}
		switch r.IntN(8) {
		case 0, 1:
			path := "plain"
			if n > stageAbove {
				path = "staged"
			}
			err := e.Do(ctx, transfer.Copy{Host: make([]byte, n), Device: at, ToHost: toHost})
			f.OK(err)
			moved(direction, path, n, nil)
		case 2:
			f.OK(e.Do(ctx, transfer.Copy{Host: pinned[:n], Device: at, ToHost: toHost}))
			moved(direction, "plain", n, nil)
		case 3:
			n = 1 + r.Int64N(stageAbove)
			err := e.Do(ctx, transfer.Copy{Host: pinned[:n], Device: nowhere, ToHost: toHost})
			f.Fails("copy of nowhere", err, device.ErrPointer)
			moved(direction, "plain", n, err)
		case 4: // nothing begins
			f.Fails("copy after the end", e.Do(ended, transfer.Copy{Host: pinned[:n], Device: at}), context.Canceled)
		case 5:
			half := n / 2
			blocks := []transfer.Block{{Dst: 0, Src: 5, Bytes: half + 1}, {Dst: most / 2, Src: half + 9, Bytes: 7}}
			f.OK(e.Batch(ctx, transfer.Batch{
				Dst: transfer.Device(at, most), Src: transfer.Device(at.Add(most), most), Blocks: blocks, Path: transfer.BatchLoop,
			}))
			moved("d2d", "loop", half+8, nil)
		case 6:
			path, way := transfer.FileDirect, "direct"
			if r.IntN(2) == 0 {
				path, way = transfer.FileMapped, "mapped"
			}
			report, err := e.ReadFile(ctx, transfer.FileCopy{File: file, Device: at, Bytes: n, Path: path})
			if errors.Is(err, device.ErrNotSupported) {
				continue // nothing begins where the file system has no such way
			}
			f.OK(err)
			if got := report.DirectBytes + report.CachedBytes + report.MappedBytes; got != n {
				t.Errorf("a file of %d bytes: %d were reported", n, got)
			}
			moved("h2d", way, n, nil)
		case 7:
			_, err := e.WriteFile(ctx, transfer.FileCopy{File: out, Device: at, Bytes: n, Path: transfer.FileCached})
			f.OK(err)
			moved("d2h", "cached", n, nil)
		}
	}
	got := map[key]transfer.Traffic{}
	for _, w := range e.Stats().Traffic {
		got[key{w.Direction, w.Path}] = w
	}
	for k := range got {
		if _, ok := want[k]; !ok {
			t.Errorf("%v: %+v, want none", k, got[k])
		}
	}
	for k, w := range want {
		if got[k] != w {
			t.Errorf("%v: %+v, want %+v", k, got[k], w)
		}
	}
	if len(want) < 8 {
		t.Errorf("only %d ways were taken: the test does not test", len(want))
	}
}

// A copy that is under way is active.
func TestStatsActive(t *testing.T) {
	f := open(t)
	e := f.Engine(transfer.Options{})
	p := f.Alloc(100)
	var during transfer.Stats
	f.OK(e.Do(ctx, transfer.Copy{Host: make([]byte, 100), Device: p, Progress: func(done, total int64) { during = e.Stats() }}))
	want := fmt.Sprint([]transfer.Traffic{{Direction: "h2d", Path: "plain", Active: 1}})
	if got := fmt.Sprint(during.Traffic); got != want {
		t.Errorf("during the copy: %s, want %s", got, want)
	}
	want = fmt.Sprint([]transfer.Traffic{{Direction: "h2d", Path: "plain", Copies: 1, Bytes: 100}})
	if got := fmt.Sprint(e.Stats().Traffic); got != want {
		t.Errorf("after the copy: %s, want %s", got, want)
	}
}
