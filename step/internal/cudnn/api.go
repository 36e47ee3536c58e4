package cudnn

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/dl"
)

// api is the part of cuDNN that Pinion calls.
var api struct {
	version, create, destroy, setStream   dl.Func
	descCreate, descDestroy, descFinalize dl.Func
	setAttribute, getAttribute, execute   dl.Func
	errorString, lastErrorString          dl.Func
}

// Values of cudnn_graph.h. testdata/abi/abi.c prints them.
const (
	statusNotInitialized = 1001
	statusBadParam       = 2000
	statusNotSupported   = 3000
	statusHostMemory     = 4003
	statusDeviceMemory   = 4004

	dataFloat    = 0
	dataHalf     = 2
	dataInt32    = 4
	dataBFloat16 = 9
	dataBoolean  = 11

	crossCorrelation = 1

	// Kinds of descriptors.
	pointwiseDesc      = 0
	convolutionDesc    = 1
	engineDesc         = 2
	engineConfigDesc   = 3
	heuristicDesc      = 4
	planDesc           = 5
	forwardDesc        = 10
	backwardFilterDesc = 11
	backwardDataDesc   = 12
	pointwiseOpDesc    = 13
	operationGraphDesc = 15
	variantPackDesc    = 16
	tensorDesc         = 17
	matmulDesc         = 18
	matmulOpDesc       = 19
	reductionDesc      = 21
	reductionOpDesc    = 22
	reshapeOpDesc      = 31

	// Types of attributes.
	typeHandle            = 0
	typeDataType          = 1
	typeBoolean           = 2
	typeInt64             = 3
	typeFloat             = 4
	typePointer           = 6
	typeConvolutionMode   = 7
	typeHeuristicMode     = 8
	typeNumericalNote     = 11
	typePointwiseMode     = 14
	typeDescriptor        = 15
	typeReductionOperator = 18

	// Modes of pointwise operations, and operators of reductions.
	pointwiseAdd      = 0
	pointwiseMul      = 1
	pointwiseDiv      = 6
	pointwiseSub      = 9
	pointwiseExp      = 13
	pointwiseLog      = 15
	pointwiseAtLeast  = 303
	pointwiseGenIndex = 501
	pointwiseSelect   = 601
	reduceAdd         = 0
	reduceMax         = 3

	// Attributes.
	pointwiseMode      = 0
	pointwisePrecision = 1
	pointwiseAxis      = 9

	convolutionComputeType = 100
	convolutionMode        = 101
	convolutionDilations   = 102
	convolutionStrides     = 103
	convolutionPost        = 104
	convolutionPre         = 105
	convolutionSpatial     = 106

	heuristicMode    = 200
	heuristicGraph   = 201
	heuristicResults = 202

	configEngine = 300

	planHandle    = 400
	planConfig    = 401
	planWorkspace = 402

	forwardAlpha = 700
	forwardBeta  = 701
	forwardConv  = 702
	forwardW     = 703
	forwardX     = 704
	forwardY     = 705

	dataAlpha = 706
	dataBeta  = 707
	dataConv  = 708
	dataW     = 709
	dataX     = 710
	dataY     = 711

	filterAlpha = 712
	filterBeta  = 713
	filterConv  = 714
	filterW     = 715
	filterX     = 716
	filterY     = 717

	pointwiseOpDescriptor = 750
	pointwiseOpX          = 751
	pointwiseOpB          = 752
	pointwiseOpY          = 753
	pointwiseOpAlpha1     = 754
	pointwiseOpAlpha2     = 755
	pointwiseOpT          = 758

	graphHandle     = 800
	graphOperations = 801

	tensorAlignment  = 900
	tensorType       = 901
	tensorDimensions = 902
	tensorStrides    = 903
	tensorUniqueID   = 906
	tensorVirtual    = 907
	tensorByValue    = 908

	packIDs       = 1000
	packPointers  = 1001
	packWorkspace = 1003

	engineNotes = 1303

	matmulComputeType = 1500

	matmulOpA          = 1520
	matmulOpB          = 1521
	matmulOpC          = 1522
	matmulOpDescriptor = 1523

	reductionOperator    = 1600
	reductionComputeType = 1601

	reductionOpX          = 1610
	reductionOpY          = 1611
	reductionOpDescriptor = 1612

	reshapeOpX = 2200
	reshapeOpY = 2201

	// Modes of heuristics.
	modeFallback = 2
	modeA        = 3

	// Numerical notes.
	noteTensorCore       = 0
	noteDownConvert      = 1
	noteReducedReduction = 2
	noteFFT              = 3
	noteNondeterministic = 4
	noteWinograd         = 5
)

// minVersion is the oldest version that is accepted: the first with these status codes.
const minVersion = 90000

// library is [load], once for the process.
var library = dl.Bind("cuDNN", "convolutions and attention on the GPU", load)

// load loads cuDNN and returns the file and its version.
func load() (file string, version int, err error) {
	files := map[string][]string{
		"linux":   {"libcudnn.so.9", "libcudnn.so", "/usr/local/cuda/lib64/libcudnn.so.9"},
		"windows": {"cudnn64_9.dll"},
	}[runtime.GOOS]
	if runtime.GOOS == "linux" {
		files = append(files, dl.Wheels("cudnn", "libcudnn.so.9")...)
	}
	file, err = dl.Open(dl.Library{
		Name:  "cudnn",
		Files: files,
		Symbols: []dl.Symbol{
			{Name: "cudnnGetVersion", Func: &api.version},
			{Name: "cudnnCreate", Func: &api.create},
			{Name: "cudnnDestroy", Func: &api.destroy},
			{Name: "cudnnSetStream", Func: &api.setStream},
			{Name: "cudnnBackendCreateDescriptor", Func: &api.descCreate},
			{Name: "cudnnBackendDestroyDescriptor", Func: &api.descDestroy},
			{Name: "cudnnBackendFinalize", Func: &api.descFinalize},
			{Name: "cudnnBackendSetAttribute", Func: &api.setAttribute},
			{Name: "cudnnBackendGetAttribute", Func: &api.getAttribute},
			{Name: "cudnnBackendExecute", Func: &api.execute},
			{Name: "cudnnGetErrorString", Func: &api.errorString},
			{Name: "cudnnGetLastErrorString", Func: &api.lastErrorString, Optional: true},
		},
	})
	if err != nil {
		return "", 0, fmt.Errorf("cudnn: %w: no cuDNN library: %w", device.ErrNotSupported, err)
	}
	version = int(api.version.Call())
	if version < minVersion {
		return "", 0, fmt.Errorf("cudnn: %w: %s is version %s; %s or newer is needed",
			device.ErrNotSupported, file, dl.VersionText(version), dl.VersionText(minVersion))
	}
	return file, version, nil
}

// Error is a failed call of the library. [errors.Is] matches it with the sentinel of the
// same meaning of package device.
type Error struct {
	Call   string // such as "cudnnBackendFinalize of a tensor"
	Status int    // cudnnStatus_t
	Name   string // of the status
	Reason string // of the library; may be empty
}

func (e *Error) Error() string {
	text := fmt.Sprintf("%s: %s (%d)", e.Call, e.Name, e.Status)
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return text
}

// Is makes errors.Is(err, device.ErrNotSupported) and the like work.
func (e *Error) Is(target error) bool {
	switch {
	case e.Status == statusHostMemory || e.Status == statusDeviceMemory:
		return target == device.ErrOutOfMemory
	case e.Status/1000 == statusBadParam/1000:
		return target == device.ErrArgument
	case e.Status/1000 == statusNotSupported/1000:
		return target == device.ErrNotSupported
	}
	return false
}

// check makes an error of a status. Called on the thread of the failed call.
func check(call string, result uintptr) error {
	status := int(int32(result))
	if status == 0 {
		return nil
	}
	e := &Error{Call: call, Status: status, Name: dl.GoString(api.errorString.Call(uintptr(status)))}
	if api.lastErrorString.Ok() {
		text := make([]byte, 1024)
		api.lastErrorString.Call(uintptr(unsafe.Pointer(&text[0])), uintptr(len(text)))
		for i, c := range text {
			if c == 0 {
				e.Reason = string(text[:i])
				break
			}
		}
	}
	return e
}
