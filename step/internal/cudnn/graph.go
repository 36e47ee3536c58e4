package cudnn

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
)

// descriptor is a cudnnBackendDescriptor_t. Zero is none.
type descriptor uintptr

// builder makes descriptors until something fails. All but what is taken from it goes
// with close.
type builder struct {
	made []descriptor
	err  error
}

// failed notes that a call failed, if it did.
func (b *builder) failed(result uintptr, call string, number uintptr) {
	if b.err == nil && int32(result) != 0 {
		b.err = check(fmt.Sprintf(call, number), result)
	}
}

// create makes a descriptor of a kind.
func (b *builder) create(kind uintptr) descriptor {
	if b.err != nil {
		return 0
	}
	d := new(descriptor)
	b.failed(api.descCreate.Call(kind, uintptr(unsafe.Pointer(d))), "cudnnBackendCreateDescriptor of kind %d", kind)
	if *d != 0 {
		b.made = append(b.made, *d)
	}
	return *d
}

// set sets an attribute of n elements. elements is a pointer into Go memory, or that of
// an array on the host.
//
//go:uintptrescapes
func (b *builder) set(d descriptor, attribute, kind uintptr, n int, elements uintptr) {
	if b.err == nil {
		b.failed(api.setAttribute.Call(uintptr(d), attribute, kind, uintptr(n), elements), "cudnnBackendSetAttribute %d", attribute)
	}
}

func (b *builder) setInts(d descriptor, attribute uintptr, values ...int64) {
	b.set(d, attribute, typeInt64, len(values), uintptr(unsafe.Pointer(&values[0])))
}

func (b *builder) setEnum(d descriptor, attribute, kind uintptr, value int32) {
	b.set(d, attribute, kind, 1, uintptr(unsafe.Pointer(&value)))
}

func (b *builder) setFloat(d descriptor, attribute uintptr, value float32) {
	b.set(d, attribute, typeFloat, 1, uintptr(unsafe.Pointer(&value)))
}

func (b *builder) setTrue(d descriptor, attribute uintptr) {
	value := true
	b.set(d, attribute, typeBoolean, 1, uintptr(unsafe.Pointer(&value)))
}

func (b *builder) setDescriptors(d descriptor, attribute uintptr, values ...descriptor) {
	b.set(d, attribute, typeDescriptor, len(values), uintptr(unsafe.Pointer(&values[0])))
}

// finalize ends what is set.
func (b *builder) finalize(d descriptor, kind uintptr) descriptor {
	if b.err == nil {
		b.failed(api.descFinalize.Call(uintptr(d)), "cudnnBackendFinalize of kind %d", kind)
	}
	return d
}

// keep takes a descriptor out of what close destroys.
func (b *builder) keep(d descriptor) descriptor {
	for i := range b.made {
		if b.made[i] == d {
			b.made[i] = 0
		}
	}
	return d
}

// close destroys what was made, the last first, and returns what failed first.
func (b *builder) close() error {
	for i := len(b.made) - 1; i >= 0; i-- {
		b.err = errors.Join(b.err, b.made[i].destroy())
	}
	b.made = nil
	return b.err
}

func (d descriptor) destroy() error {
	if d == 0 {
		return nil
	}
	return check("cudnnBackendDestroyDescriptor", api.descDestroy.Call(uintptr(d)))
}

// alignment of all memory, in bytes.
const alignment = 16

// tensor is what a graph knows of an array.
type tensor struct {
	id            int64
	kind          int32 // of elements
	dims, strides []int64
	virtual       bool // it is never in memory
	byValue       bool // a number in the host's memory
}

func (b *builder) tensor(t tensor) descriptor {
	d := b.create(tensorDesc)
	b.setEnum(d, tensorType, typeDataType, t.kind)
	b.setInts(d, tensorDimensions, t.dims...)
	b.setInts(d, tensorStrides, t.strides...)
	b.setInts(d, tensorUniqueID, t.id)
	b.setInts(d, tensorAlignment, alignment)
	if t.virtual {
		b.setTrue(d, tensorVirtual)
	}
	if t.byValue {
		b.setTrue(d, tensorByValue)
	}
	return b.finalize(d, tensorDesc)
}

func dataType(t dtype.DType) int32 {
	return map[dtype.DType]int32{dtype.F32: dataFloat, dtype.F16: dataHalf, dtype.BF16: dataBFloat16}[t]
}

func int64s(list []int) []int64 {
	out := make([]int64, len(list))
	for i, v := range list {
		out[i] = int64(v)
	}
	return out
}

// graph makes a graph of operations.
func (b *builder) graph(handle uintptr, operations ...descriptor) descriptor {
	g := b.create(operationGraphDesc)
	b.set(g, graphHandle, typeHandle, 1, uintptr(unsafe.Pointer(&handle)))
	b.setDescriptors(g, graphOperations, operations...)
	return b.finalize(g, operationGraphDesc)
}

// count is how many elements an attribute has.
func (b *builder) count(d descriptor, attribute, kind uintptr) int {
	if b.err != nil {
		return 0
	}
	n := new(int64)
	b.failed(api.getAttribute.Call(uintptr(d), attribute, kind, 0, uintptr(unsafe.Pointer(n)), 0), "cudnnBackendGetAttribute %d", attribute)
	return int(*n)
}

// get reads n elements of an attribute, and returns how many there were.
//
//go:uintptrescapes
func (b *builder) get(d descriptor, attribute, kind uintptr, n int, elements uintptr) int {
	if b.err != nil {
		return 0
	}
	there := new(int64)
	b.failed(api.getAttribute.Call(uintptr(d), attribute, kind, uintptr(n), uintptr(unsafe.Pointer(there)), elements), "cudnnBackendGetAttribute %d", attribute)
	return min(int(*there), n)
}

// configs are what heuristics propose for a graph, the best first.
func (b *builder) configs(graph descriptor, mode int32) []descriptor {
	h := b.create(heuristicDesc)
	b.setDescriptors(h, heuristicGraph, graph)
	b.setEnum(h, heuristicMode, typeHeuristicMode, mode)
	b.finalize(h, heuristicDesc)
	n := b.count(h, heuristicResults, typeDescriptor)
	if n == 0 {
		return nil
	}
	list := make([]descriptor, n)
	for i := range list {
		list[i] = b.create(engineConfigDesc)
	}
	return list[:b.get(h, heuristicResults, typeDescriptor, n, uintptr(unsafe.Pointer(&list[0])))]
}

// notes are what the library says of the numbers that an engine computes.
func (b *builder) notes(config descriptor) []int32 {
	engine := b.create(engineDesc)
	b.get(config, configEngine, typeDescriptor, 1, uintptr(unsafe.Pointer(&engine)))
	n := b.count(engine, engineNotes, typeNumericalNote)
	if n == 0 {
		return nil
	}
	notes := make([]int32, n)
	return notes[:b.get(engine, engineNotes, typeNumericalNote, n, uintptr(unsafe.Pointer(&notes[0])))]
}

// MostWorkspace is the most memory that an engine may need while it runs, in bytes. (What
// an attention's operations share comes on top: four bytes for each query.)
const MostWorkspace = 256 << 20

// errWorkspace says that an engine needs more memory than that.
var errWorkspace = errors.New("an engine needs more workspace than is allowed")

// plan finds an engine for a problem that needs no more workspace than limit. Called with
// the device's context current. The error is errWorkspace, too, if there are engines that
// need more.
func plan(handle uintptr, problem Problem, limit int64) (p descriptor, workspace int64, err error) {
	var b builder
	defer func() { err = errors.Join(err, b.close()) }()
	g := problem.graph(&b, handle)
	proposed, most := 0, int64(0)
	var last error
	for _, mode := range []int32{modeA, modeFallback} {
		configs := b.configs(g, mode)
		if b.err != nil {
			if errors.Is(b.err, device.ErrNotSupported) { // the mode has none
				last, b.err = b.err, nil
				continue
			}
			return 0, 0, nil
		}
		proposed += len(configs)
		for _, config := range configs {
			// What fails here concerns this engine alone.
			var one builder
			if problem.suits(one.notes(config)) && one.err == nil {
				p = one.create(planDesc)
				one.set(p, planHandle, typeHandle, 1, uintptr(unsafe.Pointer(&handle)))
				one.setDescriptors(p, planConfig, config)
				one.finalize(p, planDesc)
				one.get(p, planWorkspace, typeInt64, 1, uintptr(unsafe.Pointer(&workspace)))
				if one.err == nil && workspace <= limit {
					one.keep(p)
					return p, workspace, one.close()
				}
				if one.err == nil {
					most = max(most, workspace)
				}
			}
			if err := one.close(); err != nil {
				last = err
			}
		}
	}
	if b.err != nil {
		return 0, 0, nil
	}
	if most > 0 {
		last = errors.Join(last, fmt.Errorf("%w: %d bytes, at most %d", errWorkspace, most, limit))
	}
	if last != nil {
		return 0, 0, fmt.Errorf("%w: none of %d engines for a %s; the last: %w", device.ErrNotSupported, proposed, problem.what(), last)
	}
	return 0, 0, fmt.Errorf("%w: none of %d engines for a %s", device.ErrNotSupported, proposed, problem.what())
}

// pack says where the tensors of a run are.
func (b *builder) pack(ids []int64, pointers []uintptr, workspace device.Ptr) descriptor {
	at := uintptr(workspace)
	d := b.create(variantPackDesc)
	b.set(d, packIDs, typeInt64, len(ids), uintptr(unsafe.Pointer(&ids[0])))
	b.set(d, packPointers, typePointer, len(pointers), uintptr(unsafe.Pointer(&pointers[0])))
	b.set(d, packWorkspace, typePointer, 1, uintptr(unsafe.Pointer(&at)))
	return b.finalize(d, variantPackDesc)
}
