package transfer_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pinion-gpu/pinion/internal/directio"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/transfer"
	"github.com/pinion-gpu/pinion/transfer/internal/transfertest"
)

// benchFile writes a file of PINION_BENCH_FILE_BYTES (default 1 GiB) in the
// directory for temporary files.
func benchFile(b *testing.B) (*os.File, int64) {
	b.Helper()
	n := int64(1 << 30)
	if text := os.Getenv("PINION_BENCH_FILE_BYTES"); text != "" {
		var err error
		if n, err = strconv.ParseInt(text, 10, 64); err != nil {
			b.Fatal(err)
		}
	}
	file, err := os.Create(filepath.Join(b.TempDir(), "file"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { file.Close() })
	piece := unique(16<<20, 1)
	for at := int64(0); at < n; at += int64(len(piece)) {
		if _, err := file.WriteAt(piece[:min(int64(len(piece)), n-at)], at); err != nil {
			b.Fatal(err)
		}
	}
	if err := file.Sync(); err != nil {
		b.Fatal(err)
	}
	return file, n
}

// Files to the device that PINION_DEVICE names, in the page cache and not.
func BenchmarkReadFile(b *testing.B) {
	file, n := benchFile(b)
	f := open(b)
	p := f.Alloc(n)
	for _, c := range []struct {
		name    string
		path    transfer.FilePath
		cold    bool
		options []transfer.Options
	}{
		{"cached", transfer.FileAuto, false, []transfer.Options{{Copiers: 4}, {Copiers: 8}, {Copiers: 12}, {Copiers: 16}, {Copiers: 24}}},
		{"cold", transfer.FileAuto, true, []transfer.Options{{FileWorkers: 1}, {FileWorkers: 2}, {FileWorkers: 3}, {FileWorkers: 4}, {FileWorkers: 8}}},
		{"direct", transfer.FileDirect, false, []transfer.Options{{FileWorkers: 2}, {FileWorkers: 3}, {FileWorkers: 4}}},
		{"buffered", transfer.FileCached, true, []transfer.Options{{}}},
		{"mapped", transfer.FileMapped, false, []transfer.Options{{}}},
		{"cufile", transfer.FileCuFile, true, []transfer.Options{{}}},
	} {
		for _, o := range c.options {
			b.Run(fmt.Sprintf("%s/%d-%d", c.name, o.Copiers, o.FileWorkers), func(b *testing.B) {
				o.StageAbove = 1 << 20
				e, err := transfer.New(f.Dev, o)
				f.OK(err)
				defer e.Close()
				b.SetBytes(n)
				var r transfer.FileReport
				for b.Loop() {
					if c.cold {
						b.StopTimer()
						transfertest.Evict(b, file)
						b.StartTimer()
					}
					r, err = e.ReadFile(ctx, transfer.FileCopy{File: file, Device: p, Bytes: n, Path: c.path})
					if err != nil {
						b.Skip(err)
					}
				}
				b.ReportMetric(float64(r.DirectBytes)/float64(n), "direct/op")
			})
			if c.path == transfer.FileAuto && !c.cold { // into the cache again
				transferAll(b, file, n)
			}
		}
	}
}

// transferAll reads the file through the page cache.
func transferAll(b *testing.B, file *os.File, n int64) {
	piece := make([]byte, 16<<20)
	for at := int64(0); at < n; at += int64(len(piece)) {
		if _, err := file.ReadAt(piece[:min(int64(len(piece)), n-at)], at); err != nil {
			b.Fatal(err)
		}
	}
}

// What the disk gives: threads that read 2 MiB at a time past the page cache.
func BenchmarkDisk(b *testing.B) {
	const piece = 2 << 20
	file, n := benchFile(b)
	f := open(b)
	for _, threads := range []int{1, 2, 3, 4, 8, 16} {
		b.Run(strconv.Itoa(threads), func(b *testing.B) {
			direct, err := directio.Open(file, directio.Options{Path: directio.Direct})
			if err != nil {
				b.Skip(err)
			}
			defer direct.Close()
			// In huge pages, as slots are: the disk gets fewer, larger requests.
			memory := f.Pages(int64(threads) * piece)
			pagemem.Huge(memory)
			fill(memory, 1)
			b.SetBytes(n)
			for b.Loop() {
				var next atomic.Int64
				var all sync.WaitGroup
				for i := range threads {
					slot := memory[i*piece:][:piece]
					all.Go(func() {
						for at := next.Add(piece) - piece; at < n; at = next.Add(piece) - piece {
							if _, err := direct.Read(slot, at, min(piece, n-at)); err != nil {
								b.Error(err)
							}
						}
					})
				}
				all.Wait()
			}
		})
	}
}

// Device memory to new files.
func BenchmarkCreateFile(b *testing.B) {
	_, n := benchFile(b)
	f := open(b)
	p := f.Alloc(n)
	path := filepath.Join(b.TempDir(), "out")
	for _, c := range []struct {
		name string
		copy transfer.FileCopy
	}{
		{"cached", transfer.FileCopy{}},
		{"cached sync", transfer.FileCopy{Sync: true}},
		{"direct sync", transfer.FileCopy{Sync: true, Path: transfer.FileDirect}},
	} {
		for _, workers := range []int{1, 2, 3, 4, 8} {
			b.Run(fmt.Sprintf("%s/%d", c.name, workers), func(b *testing.B) {
				e := f.Engine(transfer.Options{FileWorkers: workers})
				c.copy.Device, c.copy.Bytes = p, n
				b.SetBytes(n)
				for b.Loop() {
					if _, err := e.CreateFile(ctx, path, c.copy); err != nil {
						b.Skip(err)
					}
				}
			})
		}
	}
}
