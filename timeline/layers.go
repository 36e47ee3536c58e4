package timeline

import (
	"reflect"
	"runtime"
	"strings"
	"sync"

	"github.com/pinion-gpu/pinion/device"
)

// layers wraps d once more for each ability of dev whose work is to be recorded: a
// wrapper has an ability by its methods, and so cannot have it only where the device
// does.
func (d *wrapped) layers(dev device.Device) device.Device {
	var out device.Device = d
	if a, ok := device.As[device.Launcher](dev); ok {
		out = &launcher{device.Wrapper{Device: out}, a, d}
	}
	if a, ok := device.As[device.Caller](dev); ok {
		out = &caller{Wrapper: device.Wrapper{Device: out}, Caller: a, d: d}
	}
	if a, ok := device.As[device.BatchCopier](dev); ok {
		out = &batchCopier{device.Wrapper{Device: out}, a, d}
	}
	if a, ok := device.As[device.BoxCopier](dev); ok {
		out = &boxCopier{device.Wrapper{Device: out}, a, d}
	}
	if a, ok := device.As[device.PeerCopier](dev); ok {
		out = &peerCopier{device.Wrapper{Device: out}, a, d}
	}
	if a, ok := device.As[device.Manager](dev); ok {
		out = &manager{device.Wrapper{Device: out}, a, d}
	}
	if a, ok := device.As[device.Mapper](dev); ok {
		out = &mapper{Wrapper: device.Wrapper{Device: out}, Mapper: a, d: d, chunks: map[device.Chunk]int64{}}
	}
	if a, ok := device.As[device.Native](dev); ok {
		out = &native{device.Wrapper{Device: out}, a, d}
	}
	if a, ok := device.As[device.Capturer](dev); ok {
		d.capturer = a
		out = &capturer{device.Wrapper{Device: out}, a, d}
	}
	return out
}

// record runs queue, which queues work on s, between two marks. Streams that are not
// of this recording go unrecorded.
func (d *wrapped) record(s device.Stream, e Engine, name int32, bytes int64, queue func() error) error {
	own, ok := device.AsStream[*stream](s)
	if !ok || own.d != d {
		return queue()
	}
	o := own.begin()
	err := queue()
	own.end(o, err, e, name, bytes)
	return err
}

type launcher struct {
	device.Wrapper
	device.Launcher
	d *wrapped
}

// LoadModule implements [device.Launcher].
func (l *launcher) LoadModule(image []byte) (device.Module, error) {
	m, err := l.Launcher.LoadModule(image)
	if err != nil {
		return nil, err
	}
	return &module{m, l.d}, nil
}

type module struct {
	device.Module
	d *wrapped
}

// Kernel implements [device.Module].
func (m *module) Kernel(name string) (device.Kernel, error) {
	k, err := m.Module.Kernel(name)
	if err != nil {
		return nil, err
	}
	return &kernel{k, m.d, m.d.r.name(name)}, nil
}

type kernel struct {
	device.Kernel
	d    *wrapped
	name int32
}

// Launch implements [device.Kernel].
func (k *kernel) Launch(s device.Stream, grid device.Grid, args *device.Args) error {
	return k.d.record(s, Compute, k.name, 0, func() error { return k.Kernel.Launch(s, grid, args) })
}

type caller struct {
	device.Wrapper
	device.Caller
	d     *wrapped
	names sync.Map // address of a function's code -> its name's number
}

// Call implements [device.Caller].
func (c *caller) Call(s device.Stream, fn func() error) error {
	return c.d.record(s, Compute, c.name(fn), 0, func() error { return c.Caller.Call(s, fn) })
}

// name is the number of the name of a function.
func (c *caller) name(fn func() error) int32 {
	if !c.d.r.on.Load() || fn == nil {
		return 0
	}
	at := reflect.ValueOf(fn).Pointer()
	if id, ok := c.names.Load(at); ok {
		return id.(int32)
	}
	name := "function"
	if f := runtime.FuncForPC(at); f != nil {
		name = shortName(f.Name())
	}
	id := c.d.r.name(name)
	c.names.Store(at, id)
	return id
}

// shortName is the name of a function without the path of its package, and for a
// closure that of the function around it: "example.org/x/kernels.(*fill).call.func1"
// becomes "kernels.fill".
func shortName(name string) string {
	name = name[strings.LastIndexByte(name, '/')+1:]
	parts := strings.Split(name, ".")
	for len(parts) > 2 && (strings.HasPrefix(parts[len(parts)-1], "func") || parts[len(parts)-1] == "call" || isNumber(parts[len(parts)-1])) {
		parts = parts[:len(parts)-1]
	}
	return strings.NewReplacer("(*", "", ")", "").Replace(strings.Join(parts, "."))
}

func isNumber(s string) bool { return strings.Trim(s, "0123456789") == "" }

type batchCopier struct {
	device.Wrapper
	device.BatchCopier
	d *wrapped
}

// CopyBatch implements [device.BatchCopier].
func (b *batchCopier) CopyBatch(s device.Stream, list []device.Span) error {
	engine, bytes := D2D, int64(0)
	if b.d.r.on.Load() && len(list) > 0 {
		engine = b.d.engine(list[0].Dst, list[0].Src)
		for _, x := range list {
			bytes += x.Bytes
		}
	}
	return b.d.record(s, engine, b.d.names[callBatch], bytes, func() error { return b.BatchCopier.CopyBatch(s, list) })
}

type boxCopier struct {
	device.Wrapper
	device.BoxCopier
	d *wrapped
}

// CopyBox implements [device.BoxCopier].
func (b *boxCopier) CopyBox(s device.Stream, x device.Box) error {
	engine := D2D
	if b.d.r.on.Load() {
		engine = b.d.engine(x.Dst, x.Src)
	}
	return b.d.record(s, engine, b.d.names[callBox], x.RowBytes*x.Rows*x.Planes, func() error { return b.BoxCopier.CopyBox(s, x) })
}

type peerCopier struct {
	device.Wrapper
	device.PeerCopier
	d *wrapped
}

// CopyPeer implements [device.PeerCopier].
func (p *peerCopier) CopyPeer(s device.Stream, dst device.Ptr, from device.Device, src device.Ptr, n int64) error {
	return p.d.record(s, P2P, p.d.names[callP2P], n, func() error { return p.PeerCopier.CopyPeer(s, dst, from, src, n) })
}

type manager struct {
	device.Wrapper
	device.Manager
	d *wrapped
}

// Prefetch implements [device.Manager].
func (m *manager) Prefetch(s device.Stream, p device.Ptr, n int64, to device.Place) error {
	engine := H2D
	if to == device.OnHost {
		engine = D2H
	}
	return m.d.record(s, engine, m.d.names[callPrefetch], n, func() error { return m.Manager.Prefetch(s, p, n, to) })
}

// mapper counts physical memory, and knows which addresses are the device's.
type mapper struct {
	device.Wrapper
	device.Mapper
	d *wrapped

	mu     sync.Mutex
	chunks map[device.Chunk]int64
}

// Reserve implements [device.Mapper].
func (m *mapper) Reserve(n int64) (device.Ptr, error) {
	p, err := m.Mapper.Reserve(n)
	if err == nil {
		m.d.holds(p, n)
	}
	return p, err
}

// Unreserve implements [device.Mapper].
func (m *mapper) Unreserve(p device.Ptr, n int64) error {
	m.d.mu.Lock()
	had, known := m.d.ranges.Remove(uint64(p))
	m.d.mu.Unlock()
	err := m.Mapper.Unreserve(p, n)
	if err != nil && known {
		m.d.holds(p, had)
	}
	return err
}

// CreateChunk implements [device.Mapper].
func (m *mapper) CreateChunk(n int64) (device.Chunk, error) {
	start := m.d.start()
	c, err := m.Mapper.CreateChunk(n)
	if err == nil {
		m.mu.Lock()
		m.chunks[c] = n
		m.mu.Unlock()
		m.d.host(start, m.d.names[callAlloc], n)
		m.d.amount(n)
	}
	return c, err
}

// ReleaseChunk implements [device.Mapper].
func (m *mapper) ReleaseChunk(c device.Chunk) error {
	m.mu.Lock()
	n := m.chunks[c]
	delete(m.chunks, c)
	m.mu.Unlock()
	err := m.Mapper.ReleaseChunk(c)
	if err != nil {
		m.mu.Lock()
		m.chunks[c] = n
		m.mu.Unlock()
		return err
	}
	m.d.amount(-n)
	return nil
}

// native records what libraries of the vendor queue on streams of the device. Streams
// that others made go unrecorded: they may be captured into a graph, where events
// cannot be asked.
type native struct {
	device.Wrapper
	device.Native
	d *wrapped
}

// WithStream implements [device.Native].
func (n *native) WithStream(s device.Stream, fn func(handle uintptr) error) error {
	return n.d.record(s, Compute, n.d.names[callNative], 0, func() error { return n.Native.WithStream(s, fn) })
}

// capturer records launches of graphs, each as one piece of work. What is queued on a
// stream that is captured goes unrecorded: it runs in those.
type capturer struct {
	device.Wrapper
	device.Capturer
	d *wrapped
}

// Capture implements [device.Capturer].
func (c *capturer) Capture(s device.Stream, fn func() error) (device.Graph, error) {
	c.d.captures.Add(1)
	defer c.d.captures.Add(-1)
	g, err := c.Capturer.Capture(s, fn)
	if err != nil {
		return nil, err
	}
	return &graph{g, c.d}, nil
}

type graph struct {
	device.Graph
	d *wrapped
}

// Launch implements [device.Graph].
func (g *graph) Launch(s device.Stream) error {
	return g.d.record(s, Compute, g.d.names[callGraph], 0, func() error { return g.Graph.Launch(s) })
}
