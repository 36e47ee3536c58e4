package viz

import (
	"encoding/binary"
	"runtime"

	"github.com/pinion-gpu/pinion/internal/pickle"
	"github.com/pinion-gpu/pinion/vram"
)

// frames makes lists of call frames, equal ones once: the pickle then has them
// once, too.
type frames struct {
	lists map[framesKey]*pickle.List
	calls map[call]*pickle.Dict
	key   []byte

	none     *pickle.List
	reserved *pickle.List // of segments
}

type call struct {
	function, file string
	line           int
}

type framesKey struct {
	purpose     vram.Purpose
	name, stack string
}

func newFrames() *frames {
	return &frames{
		lists:    map[framesKey]*pickle.List{},
		calls:    map[call]*pickle.Dict{},
		none:     &pickle.List{},
		reserved: &pickle.List{Items: []any{label("reserved memory")}},
	}
}

// label is a frame that says something else than a call.
func label(words string) *pickle.Dict { return frame("pinion", 0, words) }

func frame(file string, line int, name string) *pickle.Dict {
	return dict("filename", text(file), "line", line, "name", text(name))
}

// of returns the frames of an allocation: first what it is for.
func (f *frames) of(p vram.Purpose, name string, stack vram.Stack) *pickle.List {
	f.key = f.key[:0]
	for _, pc := range stack {
		f.key = binary.LittleEndian.AppendUint64(f.key, uint64(pc))
	}
	key := framesKey{p, name, string(f.key)}
	if list, ok := f.lists[key]; ok {
		return list
	}
	words := p.String()
	if name != "" {
		words += ": " + name
	}
	list := &pickle.List{Items: []any{label(words)}}
	if len(stack) > 0 {
		for calls := runtime.CallersFrames(stack); ; {
			c, more := calls.Next()
			if c.PC != 0 {
				list.Items = append(list.Items, f.call(call{c.Function, c.File, c.Line}))
			}
			if !more {
				break
			}
		}
	}
	f.lists[key] = list
	return list
}

func (f *frames) call(c call) *pickle.Dict {
	d, ok := f.calls[c]
	if !ok {
		d = frame(c.file, c.line, c.function)
		f.calls[c] = d
	}
	return d
}
