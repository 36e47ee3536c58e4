package memory

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/conformance/internal/fixture"
	"github.com/pinion-gpu/pinion/device/devicetest"
)

// Chunks are mapped, moved, written and taken away at random, and compared
// with a model after every step.
func testVirtualMemoryRandom(f *fixture.F) {
	m, unit := f.Mapper()
	const places, most, piece = 12, 8, 64
	type piecewise struct {
		handle  device.Chunk
		content byte
		at      int // its place; -1 is none
	}
	p, err := m.Reserve(places * unit)
	f.OK(err)
	var chunks []*piecewise
	var here [places]*piecewise
	s := f.Stream()
	rng := rand.New(rand.NewPCG(3, 4))
	for step := range 300 {
		switch at := rng.IntN(places); rng.IntN(4) {
		case 0: // a new chunk, or one less
			if len(chunks) < most {
				chunks = append(chunks, &piecewise{handle: newChunks(f, m, 1, unit)[0], at: -1})
			} else if i := rng.IntN(most); chunks[i].at < 0 {
				f.OK(m.ReleaseChunk(chunks[i].handle))
				chunks = slices.Delete(chunks, i, i+1)
			}
		case 1, 2: // some of those without a place, side by side
			var list []*piecewise
			var handles []device.Chunk
			for _, i := range rng.Perm(len(chunks)) {
				if c := chunks[i]; c.at < 0 && len(list) < 3 {
					list, handles = append(list, c), append(handles, c.handle)
				}
			}
			fits := at+len(list) <= places
			for i := range list {
				fits = fits && here[at+i] == nil
			}
			err := m.Map(p.Add(int64(at)*unit), handles, unit)
			if fits != (err == nil) && len(list) > 0 {
				f.Fatalf("step %d: Map of %d chunks at place %d: %v", step, len(list), at, err)
			}
			for i, c := range list {
				if !fits {
					break
				}
				here[at+i], c.at = c, at+i
				if c.content == 0 || rng.IntN(3) == 0 {
					c.content = byte(1 + rng.IntN(255))
					f.OK(s.Memset(p.Add(int64(c.at+1)*unit-piece), c.content, piece))
				}
			}
		case 3: // a few places, mapped or not
			n := 1 + rng.IntN(min(4, places-at))
			whole := !slices.Contains(here[at:at+n], nil)
			f.OK(s.Synchronize())
			err := m.Unmap(p.Add(int64(at)*unit), int64(n)*unit)
			if whole != (err == nil) {
				f.Fatalf("step %d: Unmap of %d places from %d: %v", step, n, at, err)
			}
			for i := at; i < at+n && whole; i++ {
				here[i].at, here[i] = -1, nil
			}
		}
		got := make([]byte, piece)
		for i, c := range here {
			at := p.Add(int64(i+1)*unit - piece)
			err := s.CopyD2H(got, at)
			if c == nil {
				f.Fails("CopyD2H from a place without a chunk", err, device.ErrPointer)
				continue
			}
			f.OK(err)
			f.OK(s.Synchronize())
			if !bytes.Equal(got, bytes.Repeat([]byte{c.content}, piece)) {
				f.Fatalf("step %d: place %d has %d, want %d", step, i, got[0], c.content)
			}
		}
	}
}

// Work that is queued when its memory is unmapped is an error of the stream or
// done before, and neither the end of the process nor of the device.
func testVirtualMemoryUnmapQueued(f *fixture.F) {
	f.Caller() // elsewhere it may be the end of the device
	m, unit := f.Mapper()
	p, err := m.Reserve(2 * unit)
	f.OK(err)
	chunks := newChunks(f, m, 2, unit)
	for what, queue := range map[string]func(s device.Stream) error{
		"CopyH2D": func(s device.Stream) error { return s.CopyH2D(p, make([]byte, 2*unit)) },
		"CopyD2H": func(s device.Stream) error { return s.CopyD2H(make([]byte, 2*unit), p) },
		"CopyD2D": func(s device.Stream) error { return s.CopyD2D(p, p.Add(unit), unit) },
		"Memset":  func(s device.Stream) error { return s.Memset(p, 1, 2*unit) },
		"CopyBatch": func(s device.Stream) error {
			return devicetest.As[device.BatchCopier](f, f.Dev).CopyBatch(s, []device.Span{{Dst: p, Src: p.Add(unit), Bytes: unit}})
		},
		"CopyPeer": func(s device.Stream) error {
			return devicetest.As[device.PeerCopier](f, f.Dev).CopyPeer(s, p, f.Dev, p.Add(unit), unit)
		},
		"Call": func(s device.Stream) error {
			b, err := devicetest.As[device.Caller](f, f.Dev).Bytes(p, 2*unit)
			if err != nil {
				return err
			}
			return devicetest.As[device.Caller](f, f.Dev).Call(s, func() error { clear(b); return nil })
		},
	} {
		f.OK(m.Map(p, chunks, unit))
		s := f.Stream()
		release := f.Hold(s)
		f.OK(queue(s))
		unmapped := fixture.Async(func() error { return m.Unmap(p, 2*unit) })
		select { // it may wait for the stream, or not
		case err := <-unmapped:
			f.OK(err)
			release()
			f.Fails(what+" of memory that was unmapped", s.Synchronize(), nil)
		case <-time.After(20 * time.Millisecond): // it waits, or is slow: the work may find its memory, or not
			release()
			f.Arrives("Unmap", unmapped)
			if err := s.Synchronize(); err != nil {
				f.Log(what, err)
			}
		}
		f.OK(s.Close())
	}
	f.OK(m.Map(p, chunks, unit)) // the device is none the worse
	f.Upload(p, fixture.Unique(2*unit, 1))

	// An executing operation, as luck has it.
	s := f.Stream()
	for range 20 {
		for range 4 {
			f.OK(s.Memset(p, 1, 2*unit))
		}
		f.OK(m.Unmap(p, 2*unit))
		s.Synchronize()
		f.OK(m.Map(p, chunks, unit))
	}
}

// testVirtualMemoryThreads copies mapped chunks from threads that never called
// the device before.
func testVirtualMemoryThreads(f *fixture.F) {
	m, unit := f.Mapper()
	p, err := m.Reserve(unit)
	f.OK(err)
	chunk, err := m.CreateChunk(unit)
	f.OK(err)
	f.OK(m.Map(p, []device.Chunk{chunk}, unit))
	s := f.Stream()
	mem := f.Alloc(4096)
	for i := range byte(8) {
		done := make(chan error)
		go func() {
			runtime.LockOSThread() // and never unlocked: the thread ends with this
			in, out := bytes.Repeat([]byte{i}, 4096), make([]byte, 4096)
			var err error
			if i%2 == 0 { // whichever call is the thread's first
				err = s.CopyH2D(p, in)
			} else {
				err = s.Memset(p, i, 4096)
			}
			err = errors.Join(err, s.CopyD2D(mem, p, 4096), s.CopyD2H(out, p), s.Synchronize())
			if err == nil && !bytes.Equal(in, out) {
				err = errors.New("wrong bytes arrived")
			}
			done <- err
		}()
		f.OK(<-done)
	}
	f.OK(m.Unmap(p, unit))
	f.OK(m.ReleaseChunk(chunk))
	f.OK(m.Unreserve(p, unit))
}
