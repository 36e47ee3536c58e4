package main

// #include "pinion.h"
import "C"

import (
	"context"
	"fmt"
	"os"
	"unsafe"

	"github.com/pinion-gpu/pinion/checkpoint"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/errs"
	"github.com/pinion-gpu/pinion/safetensors"
	"github.com/pinion-gpu/pinion/transfer"
)

var checkpoints handles[*safetensors.Checkpoint]

//export pinion_safetensors_open
func pinion_safetensors_open(path *C.char, n C.int64_t, handle *C.uint64_t) (result C.int) {
	defer guard(&result)
	ck, err := safetensors.Open(C.GoStringN(path, C.int(n)))
	if err != nil {
		return fail(err)
	}
	*handle = C.uint64_t(checkpoints.add(ck))
	return C.PINION_OK
}

//export pinion_safetensors_close
func pinion_safetensors_close(handle C.uint64_t) (result C.int) {
	defer guard(&result)
	ck, ok := checkpoints.take(uint64(handle))
	if !ok {
		return C.PINION_OK
	}
	return fail(ck.Close())
}

// tensorInfo is a tensor of a checkpoint, as pinion_safetensors_info tells of it,
// and as pinion_safetensors_save takes it, with the memory of its data.
type tensorInfo struct {
	Name  string            `json:"name"`
	DType safetensors.DType `json:"dtype"`
	Shape []int64           `json:"shape"`
	Bytes int64             `json:"bytes"`

	Device  string  `json:"device,omitempty"`
	Address uint64  `json:"address,omitempty"`
	Stream  *uint64 `json:"stream,omitempty"` // behind whose work the tensor is there
}

// pinion_safetensors_info tells what is in a checkpoint, as JSON. Tensors are in
// the order of their data.
//
//export pinion_safetensors_info
func pinion_safetensors_info(handle C.uint64_t, out **C.char) (result C.int) {
	defer guard(&result)
	ck, ok := checkpoints.get(uint64(handle))
	if !ok {
		return closed("the file")
	}
	var info struct {
		Metadata map[string]string `json:"metadata"` // of the first file that has any
		Tensors  []tensorInfo      `json:"tensors"`
	}
	for _, f := range ck.Files() {
		if info.Metadata == nil {
			info.Metadata = f.Metadata
		}
	}
	for _, t := range ck.Tensors() {
		shape := t.Shape
		if shape == nil {
			shape = []int64{}
		}
		info.Tensors = append(info.Tensors, tensorInfo{Name: t.Name, DType: t.DType, Shape: shape, Bytes: t.Bytes})
	}
	return tell(out, info)
}

// want is a tensor, or a part of one, that pinion_safetensors_read brings to an
// address.
type want struct {
	Name    string  `json:"name"`
	At      []int64 `json:"at"`    // elements of the first axes
	Range   []int64 `json:"range"` // of the next one, from and to; nil: all
	Address uint64  `json:"address"`
}

// pinion_safetensors_read reads tensors into memory of the caller's, as a task.
// wants is a list of want, as JSON. What is queued on the CUDA stream by now may
// use the memory before; -1: nothing does.
//
//export pinion_safetensors_read
func pinion_safetensors_read(handle C.uint64_t, wants *C.char, n C.int64_t, name *C.char, m C.int64_t, stream C.int64_t, task *C.uint64_t) (result C.int) {
	defer guard(&result)
	ck, ok := checkpoints.get(uint64(handle))
	if !ok {
		return closed("the file")
	}
	var list []want
	if err := parse(wants, n, &list); err != nil {
		return fail(err)
	}
	where := C.GoStringN(name, C.int(m))
	parts := make([]safetensors.Tensor, len(list))
	for i, w := range list {
		var err error
		if parts[i], err = w.part(ck); err != nil {
			return fail(err)
		}
	}
	if where == "host" {
		into := make([]safetensors.Into, len(list))
		for i, t := range parts {
			into[i] = safetensors.Into{Tensor: t, Memory: bytesAt(list[i].Address, t.Bytes)}
		}
		return start(task, nil, func(ctx context.Context) (uint64, error) { return 0, safetensors.Read(ctx, into...) })
	}
	s, err := siteOf(where)
	if err != nil {
		return fail(err)
	}
	into := make([]checkpoint.Into, len(list))
	for i, t := range parts {
		into[i] = checkpoint.Into{Tensor: t, Ptr: device.Ptr(list[i].Address)}
	}
	return start(task, nil, func(ctx context.Context) (uint64, error) {
		if err := s.on(stream, synchronize); err != nil {
			return 0, err
		}
		_, err := checkpoint.LoadInto(ctx, into, checkpoint.Options{}, checkpoint.Target{Engine: s.engine})
		return 0, err
	})
}

func synchronize(on device.Stream) error {
	if on == nil {
		return nil
	}
	return on.Synchronize()
}

// part is what is wanted.
func (w *want) part(ck *safetensors.Checkpoint) (t safetensors.Tensor, err error) {
	t, ok := ck.Find(w.Name)
	if !ok {
		return t, fmt.Errorf("%w: there is no tensor %.80q", errs.ErrArgument, w.Name)
	}
	for _, i := range w.At {
		if t, err = t.At(i); err != nil {
			return t, err
		}
	}
	if len(w.Range) == 2 {
		t, err = t.Range(w.Range[0], w.Range[1])
	}
	return t, err
}

// bytesAt is memory of the caller's; none where there are no bytes.
func bytesAt(address uint64, n int64) []byte {
	if n == 0 {
		return nil
	}
	return memoryAt(*(*unsafe.Pointer)(unsafe.Pointer(&address)), C.int64_t(n))
}

// saving is what pinion_safetensors_save writes.
type saving struct {
	Path     string            `json:"path"`
	Metadata map[string]string `json:"metadata"`
	Tensors  []tensorInfo      `json:"tensors"` // in the order in which they are to be
}

// pinion_safetensors_save writes a file of tensors in memory of the caller's, as
// a task.
//
//export pinion_safetensors_save
func pinion_safetensors_save(arguments *C.char, n C.int64_t, task *C.uint64_t) (result C.int) {
	defer guard(&result)
	var s saving
	if err := parse(arguments, n, &s); err != nil {
		return fail(err)
	}
	return start(task, nil, func(ctx context.Context) (uint64, error) { return 0, s.save(ctx) })
}

func (s *saving) save(ctx context.Context) error {
	tensors := make([]safetensors.Tensor, len(s.Tensors))
	for i, t := range s.Tensors {
		tensors[i] = safetensors.Tensor{Name: t.Name, DType: t.DType, Shape: t.Shape}
	}
	w, err := safetensors.Create(s.Path, tensors, safetensors.WriterOptions{Metadata: s.Metadata})
	if err != nil {
		return err
	}
	defer w.Discard()
	for _, t := range s.Tensors {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := t.write(ctx, w); err != nil {
			return err
		}
	}
	return w.Commit()
}

func (t *tensorInfo) write(ctx context.Context, w *safetensors.Writer) error {
	if t.Device == "host" || t.Bytes == 0 {
		return w.Write(t.Name, bytesAt(t.Address, t.Bytes))
	}
	s, err := siteOf(t.Device)
	if err != nil {
		return err
	}
	stream := C.int64_t(-1)
	if t.Stream != nil {
		stream = C.int64_t(*t.Stream)
	}
	return w.Place(t.Name, func(f *os.File, place safetensors.Tensor) error {
		return s.on(stream, func(on device.Stream) error {
			c := transfer.FileCopy{File: f, Offset: place.Offset, Device: device.Ptr(t.Address), Bytes: place.Bytes, On: on}
			_, err := s.engine.WriteFile(ctx, c)
			return err
		})
	})
}
