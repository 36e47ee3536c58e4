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

func (b *builder) setDescriptor(d descriptor, attribute uintptr, value descriptor) {
	b.set(d, attribute, typeDescriptor, 1, uintptr(unsafe.Pointer(&value)))
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

// Unique numbers of the tensors.
const (
	imageID  = 'x'
	filterID = 'w'
	resultID = 'y'
)

// alignment of all memory, in bytes.
const alignment = 16

func (b *builder) tensor(c *Convolution, id int64, dims []int) descriptor {
	d := b.create(tensorDesc)
	b.setEnum(d, tensorType, typeDataType, dataType(c.Type))
	b.setInts(d, tensorDimensions, int64s(dims)...)
	b.setInts(d, tensorStrides, strides(dims, c.ChannelsLast)...)
	b.setInts(d, tensorUniqueID, id)
	b.setInts(d, tensorAlignment, alignment)
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

// operation is how the library names the parts of a kind.
type operation struct {
	desc                       uintptr
	conv, x, w, y, alpha, beta uintptr
}

var operations = [...]operation{
	Forward:        {forwardDesc, forwardConv, forwardX, forwardW, forwardY, forwardAlpha, forwardBeta},
	BackwardData:   {backwardDataDesc, dataConv, dataX, dataW, dataY, dataAlpha, dataBeta},
	BackwardFilter: {backwardFilterDesc, filterConv, filterX, filterW, filterY, filterAlpha, filterBeta},
}

// graph makes a graph of the one operation.
func (b *builder) graph(handle uintptr, c *Convolution) descriptor {
	conv := b.create(convolutionDesc)
	b.setEnum(conv, convolutionComputeType, typeDataType, dataFloat)
	b.setEnum(conv, convolutionMode, typeConvolutionMode, crossCorrelation)
	b.setInts(conv, convolutionSpatial, int64(len(c.Strides)))
	b.setInts(conv, convolutionPre, int64s(c.Low)...)
	b.setInts(conv, convolutionPost, int64s(c.High)...)
	b.setInts(conv, convolutionDilations, int64s(c.Dilation)...)
	b.setInts(conv, convolutionStrides, int64s(c.Strides)...)
	b.finalize(conv, convolutionDesc)
	o := operations[c.Kind]
	x, w, y := b.tensor(c, imageID, c.Image), b.tensor(c, filterID, c.Filter), b.tensor(c, resultID, c.Result)
	op := b.create(o.desc)
	b.setDescriptor(op, o.conv, conv)
	b.setDescriptor(op, o.x, x)
	b.setDescriptor(op, o.w, w)
	b.setDescriptor(op, o.y, y)
	one, zero := float32(1), float32(0)
	b.set(op, o.alpha, typeFloat, 1, uintptr(unsafe.Pointer(&one)))
	b.set(op, o.beta, typeFloat, 1, uintptr(unsafe.Pointer(&zero)))
	b.finalize(op, o.desc)
	g := b.create(operationGraphDesc)
	b.set(g, graphHandle, typeHandle, 1, uintptr(unsafe.Pointer(&handle)))
	b.setDescriptor(g, graphOperations, op)
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
	b.setDescriptor(h, heuristicGraph, graph)
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

// suits says whether an engine always gives the same bits, and those that others do.
func (b *builder) suits(config descriptor, t dtype.DType) bool {
	engine := b.create(engineDesc)
	b.get(config, configEngine, typeDescriptor, 1, uintptr(unsafe.Pointer(&engine)))
	n := b.count(engine, engineNotes, typeNumericalNote)
	if n == 0 {
		return b.err == nil
	}
	notes := make([]int32, n)
	n = b.get(engine, engineNotes, typeNumericalNote, n, uintptr(unsafe.Pointer(&notes[0])))
	for _, note := range notes[:n] {
		switch note {
		case noteNondeterministic, noteReducedReduction, noteFFT, noteWinograd:
			return false
		case noteTensorCore, noteDownConvert: // float32 as TF32
			if t == dtype.F32 {
				return false
			}
		}
	}
	return b.err == nil
}

// MostWorkspace is the most memory that an engine may need while it runs, in bytes.
const MostWorkspace = 256 << 20

// plan finds an engine for a convolution. Called with the device's context current.
func plan(handle uintptr, c *Convolution) (p descriptor, workspace int64, err error) {
	var b builder
	defer func() { err = errors.Join(err, b.close()) }()
	g := b.graph(handle, c)
	proposed := 0
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
			if one.suits(config, c.Type) {
				p = one.create(planDesc)
				one.set(p, planHandle, typeHandle, 1, uintptr(unsafe.Pointer(&handle)))
				one.setDescriptor(p, planConfig, config)
				one.finalize(p, planDesc)
				one.get(p, planWorkspace, typeInt64, 1, uintptr(unsafe.Pointer(&workspace)))
				if one.err == nil && workspace <= MostWorkspace {
					one.keep(p)
					return p, workspace, one.close()
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
	if last != nil {
		return 0, 0, fmt.Errorf("%w: none of %d engines for a %v of %v; the last: %w", device.ErrNotSupported, proposed, c.Kind, c.Type, last)
	}
	return 0, 0, fmt.Errorf("%w: none of %d engines for a %v of %v", device.ErrNotSupported, proposed, c.Kind, c.Type)
}

// pack says where the tensors of a run are.
func (b *builder) pack(image, filter, result, workspace device.Ptr) descriptor {
	ids := [...]int64{imageID, filterID, resultID}
	pointers := [...]uintptr{uintptr(image), uintptr(filter), uintptr(result)}
	at := uintptr(workspace)
	d := b.create(variantPackDesc)
	b.set(d, packIDs, typeInt64, len(ids), uintptr(unsafe.Pointer(&ids[0])))
	b.set(d, packPointers, typePointer, len(pointers), uintptr(unsafe.Pointer(&pointers[0])))
	b.set(d, packWorkspace, typePointer, 1, uintptr(unsafe.Pointer(&at)))
	return b.finalize(d, variantPackDesc)
}
