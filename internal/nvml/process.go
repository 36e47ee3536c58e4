package nvml

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"unsafe"
)

// processInfo is nvmlProcessInfo_t, that of the functions that end in _v3.
type processInfo struct {
	pid                              uint32
	_                                uint32
	used                             uint64
	gpuInstanceID, computeInstanceID uint32
}

// The first drivers of series 535 wrote one more field of 8 bytes, though the
// function's name is the same.
const (
	processBytes     = int(unsafe.Sizeof(processInfo{}))
	wideProcessBytes = processBytes + 8
)

// Process is a process that uses a GPU.
type Process struct {
	PID       int   // as the host numbers processes, also inside a container
	UsedBytes int64 // device memory; -1 where the driver does not tell, as on WSL
	Graphics  bool  // it draws, too or only
}

// Processes lists the processes that use the GPU, by PID: those that compute
// and those that draw. From inside a container some drivers list none, or only
// those of the container.
func (d Device) Processes() ([]Process, error) {
	list, err := d.processes(&d.api.compute)
	if err != nil {
		return nil, err
	}
	drawing, err := d.processes(&d.api.graphics)
	if err != nil && !errors.Is(err, ErrNotSupported) {
		return nil, err
	}
	for _, p := range drawing {
		p.Graphics = true
		if i := slices.IndexFunc(list, func(q Process) bool { return q.PID == p.PID }); i >= 0 {
			list[i].Graphics = true
			continue
		}
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b Process) int { return cmp.Compare(a.PID, b.PID) })
	return list, nil
}

// Bounds of a list that may grow between two calls.
const (
	firstRoom = 128 // entries
	mostRoom  = 1 << 16
	attempts  = 4
)

func (d Device) processes(f *function) ([]Process, error) {
	if err := missing(f); err != nil {
		return nil, err
	}
	room := uint32(firstRoom)
	for range attempts {
		b := make([]byte, int(room)*wideProcessBytes)
		n := room
		err := check(f, f.Call(d.handle, uintptr(unsafe.Pointer(&n)), uintptr(unsafe.Pointer(&b[0]))))
		var e *Error
		switch {
		case err == nil:
			return readProcesses(b, int(min(n, room))), nil
		case !errors.As(err, &e) || e.Code != codeInsufficientSize || n > mostRoom:
			return nil, err
		}
		room = max(n, room) + firstRoom
	}
	return nil, fmt.Errorf("%s: the list grew at each of %d calls", f.name, attempts)
}

// readProcesses reads n entries. Which of the two sizes they have shows in what
// is behind n of the smaller ones: nothing, or the end of the last larger one,
// with the instances it runs on (all ones where there are none).
func readProcesses(b []byte, n int) (list []Process) {
	size := processBytes
	for _, c := range b[n*processBytes : n*wideProcessBytes] {
		if c != 0 {
			size = wideProcessBytes
		}
	}
	for i := range n {
		entry := b[i*size:]
		p := Process{PID: int(binary.NativeEndian.Uint32(entry[unsafe.Offsetof(processInfo{}.pid):]))}
		p.UsedBytes = int64(binary.NativeEndian.Uint64(entry[unsafe.Offsetof(processInfo{}.used):]))
		if p.UsedBytes < 0 { // NVML_VALUE_NOT_AVAILABLE
			p.UsedBytes = -1
		}
		// One process with several instances of a GPU has an entry for each.
		if i := slices.IndexFunc(list, func(q Process) bool { return q.PID == p.PID }); i >= 0 {
			if list[i].UsedBytes >= 0 && p.UsedBytes >= 0 {
				list[i].UsedBytes += p.UsedBytes
			}
			continue
		}
		list = append(list, p)
	}
	return list
}

// processSample is nvmlProcessUtilizationSample_t.
type processSample struct {
	pid                          uint32
	_                            uint32
	time                         uint64
	sm, memory, encoder, decoder uint32
}

// ProcessUse is how much of a GPU one process used in a sample period, as
// fractions of the period.
type ProcessUse struct {
	PID    int
	GPU    float64 // a kernel of it ran
	Memory float64 // device memory was read or written
	At     uint64  // when the sample was taken, in microseconds of the driver's clock
}

// ProcessUse lists the last sample of each process that used the GPU after the
// time since, in the driver's microseconds, and the time of the newest of them,
// which is since for the next call. With since 0 it lists all that the driver
// still has, some seconds. No process used it: an empty list.
func (d Device) ProcessUse(since uint64) (list []ProcessUse, newest uint64, err error) {
	f := &d.api.processUse
	if err := missing(f); err != nil {
		return nil, since, err
	}
	room := uint32(firstRoom)
	for range attempts {
		samples := make([]processSample, room)
		n := room
		err := check(f, f.Call(d.handle, uintptr(unsafe.Pointer(&samples[0])), uintptr(unsafe.Pointer(&n)), uintptr(since)))
		var e *Error
		switch {
		case err == nil:
			list, newest = lastSamples(samples[:min(n, room)], since)
			return list, newest, nil
		case !errors.As(err, &e) || e.Code != codeInsufficientSize && e.Code != codeNotFound || n > mostRoom:
			return nil, since, err
		case e.Code == codeNotFound:
			return nil, since, nil
		}
		room = max(n, room) + firstRoom
	}
	return nil, since, fmt.Errorf("%s: the list grew at each of %d calls", f.name, attempts)
}

// lastSamples keeps the newest sample of each process.
func lastSamples(samples []processSample, since uint64) (list []ProcessUse, newest uint64) {
	newest = since
	for _, s := range samples {
		if s.pid == 0 || s.time <= since { // the driver leaves entries of the buffer empty
			continue
		}
		newest = max(newest, s.time)
		use := ProcessUse{int(s.pid), float64(min(s.sm, 100)) / 100, float64(min(s.memory, 100)) / 100, s.time}
		i := slices.IndexFunc(list, func(u ProcessUse) bool { return u.PID == use.PID })
		switch {
		case i < 0:
			list = append(list, use)
		case list[i].At < use.At:
			list[i] = use
		}
	}
	slices.SortFunc(list, func(a, b ProcessUse) int { return cmp.Compare(a.PID, b.PID) })
	return list, newest
}
