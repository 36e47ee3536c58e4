package checkpoint

import (
	"cmp"
	"slices"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/safetensors"
)

// piece is a tensor and its place in some device memory.
type piece struct {
	safetensors.Tensor
	from, to dtype.DType // of a cast; 0: as stored
	at       int64       // in the memory
	size     int64       // bytes there
}

func (p *piece) cast() bool { return p.to != 0 }

// dtype is the type on the device.
func (p *piece) dtype() safetensors.DType {
	if p.cast() {
		return safetensors.Of(p.to)
	}
	return p.DType
}

// layout places tensors one behind the other, those of a file in the order of
// their data, and returns how many bytes they take. Where all sizes are
// multiples of o.Align, what is contiguous in the file is so on the device.
func (o *Options) layout(tensors []safetensors.Tensor) (pieces []piece, size int64) {
	pieces = make([]piece, len(tensors))
	for i, t := range tensors {
		pieces[i] = o.piece(t)
	}
	sortPieces(pieces)
	for i := range pieces {
		p := &pieces[i]
		p.at = (size + o.Align - 1) &^ (o.Align - 1)
		if p.size == 0 {
			p.at = size
		}
		size = p.at + p.size
	}
	return pieces, size
}

// piece is a tensor that has no place yet.
func (o *Options) piece(t safetensors.Tensor) piece {
	p := piece{Tensor: t, size: t.Bytes}
	if from, ok := t.DType.Element(); ok && castable(from) && o.Floats != 0 && from != o.Floats {
		p.from, p.to = from, o.Floats
		p.size = t.Bytes / int64(from.Size()) * int64(o.Floats.Size())
	}
	return p
}

// sortPieces puts pieces in the order in which their files come first, those of
// a file in that of their data.
func sortPieces(pieces []piece) {
	files := map[*safetensors.File]int{}
	for _, p := range pieces {
		if _, ok := files[p.File]; !ok {
			files[p.File] = len(files)
		}
	}
	slices.SortStableFunc(pieces, func(a, b piece) int {
		return cmp.Or(cmp.Compare(files[a.File], files[b.File]), cmp.Compare(a.Offset, b.Offset))
	})
}

// step is a part of a file that is read in one go, and what becomes of it.
type step struct {
	file          *safetensors.File
	offset, bytes int64
	want          int64 // bytes of tensors in it; without the gaps

	direct bool  // all of it goes to one place,
	at     int64 // this

	cast bool  // else it is cast, or spread as it is
	cuts []cut // by these
}

// cut is a part of a step that goes to a place of its own.
type cut struct {
	from, bytes int64 // in the step
	at          int64 // on the device
	source, to  dtype.DType
}

// plan cuts the reading of pieces, in their order, into steps.
func (l *limits) plan(pieces []piece) (steps []step) {
	for rest := pieces; len(rest) > 0; {
		if rest[0].size == 0 {
			rest = rest[1:]
			continue
		}
		// What is alike, of one file, up to where tensors are left out.
		n := 1
		for n < len(rest) && rest[n].File == rest[0].File && rest[n].cast() == rest[0].cast() {
			n++
		}
		if rest[0].cast() {
			steps = append(steps, l.casts(rest[:n])...)
		} else {
			steps = append(steps, l.copies(rest[:n])...)
		}
		rest = rest[n:]
	}
	return steps
}

// copies plans pieces that stay as they are.
func (l *limits) copies(pieces []piece) (steps []step) {
	var small step // of parts that are read together
	flush := func() {
		if len(small.cuts) > 0 {
			steps = append(steps, small)
		}
		small = step{}
	}
	for len(pieces) > 0 {
		// A run is contiguous in the file and on the device.
		first := pieces[0]
		bytes, n := first.Bytes, 1
		for n < len(pieces) && pieces[n].Offset == first.Offset+bytes && pieces[n].at == first.at+bytes {
			bytes += pieces[n].Bytes
			n++
		}
		pieces = pieces[n:]
		if bytes == 0 {
			continue
		}
		if bytes >= l.small {
			flush()
			for done := int64(0); done < bytes; {
				part := min(l.step, bytes-done)
				steps = append(steps, step{file: first.File, offset: first.Offset + done, bytes: part, want: part, direct: true, at: first.at + done})
				done += part
			}
			continue
		}
		end := small.offset + small.bytes
		if len(small.cuts) > 0 && (first.Offset-end > l.gap || first.Offset+bytes-small.offset > l.group) {
			flush()
		}
		if len(small.cuts) == 0 {
			small = step{file: first.File, offset: first.Offset}
		}
		small.cuts = append(small.cuts, cut{from: first.Offset - small.offset, bytes: bytes, at: first.at})
		small.bytes = first.Offset + bytes - small.offset
		small.want += bytes
	}
	flush()
	return steps
}

// leastStaging is what is worth casting at once.
const leastStaging = 16 << 20

// casts plans pieces that are cast. Few of them are cut smaller, so that all
// workers have some.
func (l *limits) casts(pieces []piece) (steps []step) {
	total := int64(0)
	for i := range pieces {
		total += pieces[i].Bytes
	}
	staging := min(l.staging, max(leastStaging, total/int64(4*l.parallel)))
	var s step
	flush := func() {
		if len(s.cuts) > 0 {
			steps = append(steps, s)
		}
		s = step{}
	}
	for _, p := range pieces {
		source, to := int64(p.from.Size()), int64(p.to.Size())
		for done := int64(0); done < p.Bytes; {
			offset := p.Offset + done
			room := (staging - (offset - s.offset)) / source * source
			if len(s.cuts) == 0 || offset < s.offset || offset-s.offset-s.bytes > l.gap || room <= 0 || (offset-s.offset)%source != 0 {
				flush()
				s = step{file: p.File, offset: offset, cast: true}
				room = staging / source * source
			}
			n := min(p.Bytes-done, room)
			s.cuts = append(s.cuts, cut{from: offset - s.offset, bytes: n, at: p.at + done/source*to, source: p.from, to: p.to})
			s.bytes = max(s.bytes, offset+n-s.offset) // a tensor may be read twice
			s.want += n
			done += n
		}
	}
	flush()
	return steps
}

// tensorsAt returns pieces as they are on a target, in memory that begins at base.
func tensorsAt(pieces []piece, base device.Ptr, target int) []Tensor {
	tensors := make([]Tensor, len(pieces))
	for i := range pieces {
		p := &pieces[i]
		tensors[i] = Tensor{Name: p.Name, DType: p.dtype(), Shape: p.Shape, Bytes: p.size, Target: target}
		if p.size > 0 {
			tensors[i].Ptr = base.Add(p.at)
		}
	}
	return tensors
}
