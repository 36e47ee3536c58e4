package trace

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/pinion-gpu/pinion/internal/pickle"
	"github.com/pinion-gpu/pinion/internal/units"
)

// snapshot holds the events of a PyTorch memory snapshot, which is read as a whole.
type snapshot struct{ events []Event }

func (p *snapshot) next() (Event, error) {
	if len(p.events) == 0 {
		return Event{}, io.EOF
	}
	event := p.events[0]
	p.events = p.events[1:]
	return event, nil
}

func newSnapshot(in *bufio.Reader, o Options) (*snapshot, error) {
	data, err := io.ReadAll(io.LimitReader(in, o.MaxSnapshotBytes))
	if err != nil {
		return nil, err
	}
	if more, _ := in.Peek(1); len(more) > 0 {
		return nil, fmt.Errorf("snapshot %w: more than %s", ErrTooLarge, units.Bytes(o.MaxSnapshotBytes))
	}
	root, err := pickle.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	segments, traces, err := sections(root)
	if err != nil {
		return nil, err
	}
	blocks, err := liveBlocks(segments)
	if err != nil {
		return nil, err
	}
	device, err := chooseDevice(o.Device, traces, blocks)
	if err != nil {
		return nil, err
	}
	var entries []any
	if device < len(traces) {
		entries = traces[device]
	}
	b := builder{device: device, ledger: newLedger(1), streams: numbering{}, touched: map[uint64]bool{}}
	if err := b.read(entries); err != nil {
		return nil, err
	}
	if err := b.build(blocks[device]); err != nil {
		return nil, err
	}
	return &snapshot{b.events}, nil
}

// sections finds the parts of the snapshot that matter.
func sections(root any) (segments []any, traces [][]any, err error) {
	if list, ok := root.(*pickle.List); ok { // of torch.cuda.memory_snapshot
		return list.Items, nil, nil
	}
	dict, ok := root.(*pickle.Dict)
	if !ok {
		return nil, nil, fmt.Errorf("%w: the pickle is a %T, not a snapshot", ErrFormat, root)
	}
	segmentList, hasSegments := field[*pickle.List](dict, "segments")
	traceList, hasTraces := field[*pickle.List](dict, "device_traces")
	if !hasSegments && !hasTraces {
		return nil, nil, fmt.Errorf(`%w: the pickle has neither "segments" nor "device_traces"`, ErrFormat)
	}
	if hasSegments {
		segments = segmentList.Items
	}
	if hasTraces {
		for i, item := range traceList.Items {
			list, ok := item.(*pickle.List)
			if !ok {
				return nil, nil, fmt.Errorf("%w: device_traces[%d] is a %T", ErrMalformed, i, item)
			}
			traces = append(traces, list.Items)
		}
	}
	return segments, traces, nil
}

// chooseDevice applies Options.Device.
func chooseDevice(wanted *int, traces [][]any, blocks map[int][]liveBlock) (int, error) {
	devices := len(traces)
	for device := range blocks {
		devices = max(devices, device+1)
	}
	if wanted != nil {
		if *wanted < 0 || *wanted >= devices {
			return 0, fmt.Errorf("%w: no device %d: the snapshot has %d", ErrArgument, *wanted, devices)
		}
		return *wanted, nil
	}
	best, most := 0, 0
	for device, entries := range traces {
		if len(entries) > most {
			best, most = device, len(entries)
		}
	}
	if most > 0 {
		return best, nil
	}
	for device := range devices {
		if len(blocks[device]) > most {
			best, most = device, len(blocks[device])
		}
	}
	return best, nil
}

// liveBlock is a block that "segments" calls active, or that the trace frees
// without having allocated it.
type liveBlock struct{ address, bytes, stream uint64 }

// liveBlocks collects the active blocks of each device.
func liveBlocks(segments []any) (map[int][]liveBlock, error) {
	out := map[int][]liveBlock{}
	seen := map[uint64]bool{}
	for i, item := range segments {
		segment, _ := item.(*pickle.Dict)
		address, ok := number(segment, "address")
		if !ok || seen[address] {
			return nil, fmt.Errorf("%w: segments[%d] has no address of its own", ErrMalformed, i)
		}
		seen[address] = true
		stream, _ := number(segment, "stream")
		device, _ := number(segment, "device")
		if device > math.MaxUint16 {
			return nil, fmt.Errorf("%w: segments[%d] is on device %d", ErrMalformed, i, device)
		}
		blocks, _ := field[*pickle.List](segment, "blocks")
		if blocks == nil {
			continue
		}
		for j, item := range blocks.Items {
			block, _ := item.(*pickle.Dict)
			size, ok := number(block, "size")
			if !ok {
				return nil, fmt.Errorf("%w: segments[%d].blocks[%d] has no size", ErrMalformed, i, j)
			}
			if at, ok := number(block, "address"); ok { // PyTorch before 2.1 leaves it out
				address = at
			}
			// Pending frees ("active_pending_free") hold their memory too.
			if state, _ := field[string](block, "state"); strings.HasPrefix(state, "active") {
				bytes, _ := number(block, "requested_size")
				if bytes == 0 {
					bytes = size
				}
				out[int(device)] = append(out[int(device)], liveBlock{address, bytes, stream})
			}
			address += size
		}
	}
	return out, nil
}

// entry is what matters of one trace entry.
type entry struct {
	action                action
	address, size, stream uint64
	time                  time.Duration
	name                  string
}

type action uint8

const (
	other action = iota
	alloc
	freeRequested
	freeCompleted
	outOfMemory
)

var actions = map[string]action{
	"alloc": alloc, "free_requested": freeRequested, "free_completed": freeCompleted, "oom": outOfMemory,
	"segment_alloc": other, "segment_free": other, "segment_map": other, "segment_unmap": other, "snapshot": other,
}

// builder makes events of the trace of one device.
type builder struct {
	device  int
	entries []entry
	ledger  ledger
	streams numbering
	start   uint64          // time_us of the first entry that has it
	touched map[uint64]bool // addresses in the trace
	events  []Event
}

func (b *builder) malformed(i int, why error) error {
	return fmt.Errorf("%w: device_traces[%d][%d]: %w", ErrMalformed, b.device, i, why)
}

// read decodes the entries, and decides where each block is freed: where
// PyTorch completed the free, or where it was requested if it did not come to
// that.
func (b *builder) read(items []any) error {
	requested := map[uint64]int{} // entries that wait for their completion
	b.entries = make([]entry, len(items))
	for i, item := range items {
		dict, _ := item.(*pickle.Dict)
		name, ok := field[string](dict, "action")
		if !ok {
			return b.malformed(i, fmt.Errorf("the action is missing"))
		}
		e := &b.entries[i]
		if e.action, ok = actions[name]; !ok || e.action == other {
			continue // what PyTorch may add is not the user's either
		}
		if e.address, ok = number(dict, "addr"); !ok && e.action != outOfMemory {
			return b.malformed(i, fmt.Errorf("%s without addr", name))
		}
		if e.size, ok = number(dict, "size"); !ok || e.size == 0 || e.size > math.MaxInt64 {
			return b.malformed(i, fmt.Errorf("%s without a positive size", name))
		}
		e.stream, _ = number(dict, "stream")
		e.time = b.since(dict)
		userName, _ := field[string](dict, "user_metadata")
		e.name = strings.ToValidUTF8(userName, "\ufffd")
		switch e.action {
		case alloc:
			delete(requested, e.address)
		case freeRequested:
			requested[e.address] = i
		case freeCompleted:
			if at, ok := requested[e.address]; ok {
				b.entries[at].action = other
			}
		}
	}
	return nil
}

// since returns the time of an entry since the first one.
func (b *builder) since(dict *pickle.Dict) time.Duration {
	micros, ok := number(dict, "time_us")
	if !ok {
		return 0
	}
	if b.start == 0 {
		b.start = micros
	}
	passed := int64(micros - b.start)
	if passed < 0 || passed > math.MaxInt64/int64(time.Microsecond) { // the clock was set
		return 0
	}
	return time.Duration(passed) * time.Microsecond
}

// build makes the events: first what was live before the trace, which the
// trace frees or the segments still have, then the trace.
func (b *builder) build(segments []liveBlock) error {
	before := b.freedOnly()
	for _, block := range segments {
		if !b.touched[block.address] {
			before = append(before, block)
		}
	}
	slices.SortStableFunc(before, func(x, y liveBlock) int { return cmp.Compare(x.address, y.address) })
	for _, block := range before {
		event := Event{Bytes: int64(min(block.bytes, math.MaxInt64))}
		if err := b.alloc(event, block.address, block.stream); err != nil {
			return fmt.Errorf("%w: the block at 0x%x, live before the trace: %w", ErrMalformed, block.address, err)
		}
	}
	for i, e := range b.entries {
		if err := b.add(e); err != nil {
			return b.malformed(i, err)
		}
	}
	return nil
}

// freedOnly finds the blocks whose first entry is a free, and notes all
// addresses.
func (b *builder) freedOnly() []liveBlock {
	var out []liveBlock
	for _, e := range b.entries {
		if e.action == other || e.action == outOfMemory || b.touched[e.address] {
			continue
		}
		b.touched[e.address] = true
		if e.action != alloc {
			out = append(out, liveBlock{e.address, e.size, e.stream})
		}
	}
	return out
}

func (b *builder) add(e entry) error {
	event := Event{Bytes: int64(e.size), Time: e.time}
	switch e.action {
	case alloc:
		event.Name = e.name
		return b.alloc(event, e.address, e.stream)
	case outOfMemory:
		event.Failed = true
	case freeRequested, freeCompleted:
		block, err := b.ledger.free(e.address)
		if err != nil {
			return err
		}
		event.Op, event.ID, event.Bytes = Free, block.id, block.bytes
	default:
		return nil
	}
	var err error
	if event.Stream, err = b.streams.number(e.stream); err != nil {
		return err
	}
	b.events = append(b.events, event)
	return nil
}

func (b *builder) alloc(event Event, address, stream uint64) (err error) {
	if event.Stream, err = b.streams.number(stream); err != nil {
		return err
	}
	event.ID, err = b.ledger.alloc(address, 0, event.Bytes, event.Stream)
	b.events = append(b.events, event)
	return err
}

// field returns the value of a key if it has the type. The dict may be nil.
func field[T any](dict *pickle.Dict, key string) (value T, ok bool) {
	if dict == nil {
		return value, false
	}
	v, _ := dict.Get(key)
	value, ok = v.(T)
	return value, ok
}

// number returns an integer that is not negative.
func number(dict *pickle.Dict, key string) (uint64, bool) {
	if n, ok := field[int64](dict, key); ok {
		return uint64(n), n >= 0
	}
	return field[uint64](dict, key)
}
