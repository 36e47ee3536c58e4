package cudnn

import (
	_ "embed"
	"testing"
	"unsafe"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

// abi is what testdata/abi/abi.c printed with the vendor's header.
//
//go:embed testdata/abi/abi.txt
var abi []byte

// TestABI compares the values and sizes that the binding is written with to those of the
// vendor's header.
func TestABI(t *testing.T) {
	var e int32 // the type that enums have here
	testkit.ABI(t, abi, map[string]uintptr{
		"statusNotInitialized":    statusNotInitialized,
		"statusBadParam":          statusBadParam,
		"statusNotSupported":      statusNotSupported,
		"statusHostMemory":        statusHostMemory,
		"statusDeviceMemory":      statusDeviceMemory,
		"dataFloat":               dataFloat,
		"dataHalf":                dataHalf,
		"dataBFloat16":            dataBFloat16,
		"crossCorrelation":        crossCorrelation,
		"convolutionDesc":         convolutionDesc,
		"engineDesc":              engineDesc,
		"engineConfigDesc":        engineConfigDesc,
		"heuristicDesc":           heuristicDesc,
		"planDesc":                planDesc,
		"forwardDesc":             forwardDesc,
		"backwardFilterDesc":      backwardFilterDesc,
		"backwardDataDesc":        backwardDataDesc,
		"operationGraphDesc":      operationGraphDesc,
		"variantPackDesc":         variantPackDesc,
		"tensorDesc":              tensorDesc,
		"typeHandle":              typeHandle,
		"typeDataType":            typeDataType,
		"typeInt64":               typeInt64,
		"typeFloat":               typeFloat,
		"typePointer":             typePointer,
		"typeConvolutionMode":     typeConvolutionMode,
		"typeHeuristicMode":       typeHeuristicMode,
		"typeNumericalNote":       typeNumericalNote,
		"typeDescriptor":          typeDescriptor,
		"convolutionComputeType":  convolutionComputeType,
		"convolutionMode":         convolutionMode,
		"convolutionDilations":    convolutionDilations,
		"convolutionStrides":      convolutionStrides,
		"convolutionPost":         convolutionPost,
		"convolutionPre":          convolutionPre,
		"convolutionSpatial":      convolutionSpatial,
		"heuristicMode":           heuristicMode,
		"heuristicGraph":          heuristicGraph,
		"heuristicResults":        heuristicResults,
		"configEngine":            configEngine,
		"planHandle":              planHandle,
		"planConfig":              planConfig,
		"planWorkspace":           planWorkspace,
		"forwardAlpha":            forwardAlpha,
		"forwardBeta":             forwardBeta,
		"forwardConv":             forwardConv,
		"forwardW":                forwardW,
		"forwardX":                forwardX,
		"forwardY":                forwardY,
		"dataAlpha":               dataAlpha,
		"dataBeta":                dataBeta,
		"dataConv":                dataConv,
		"dataW":                   dataW,
		"dataX":                   dataX,
		"dataY":                   dataY,
		"filterAlpha":             filterAlpha,
		"filterBeta":              filterBeta,
		"filterConv":              filterConv,
		"filterW":                 filterW,
		"filterX":                 filterX,
		"filterY":                 filterY,
		"graphHandle":             graphHandle,
		"graphOperations":         graphOperations,
		"tensorAlignment":         tensorAlignment,
		"tensorType":              tensorType,
		"tensorDimensions":        tensorDimensions,
		"tensorStrides":           tensorStrides,
		"tensorUniqueID":          tensorUniqueID,
		"packIDs":                 packIDs,
		"packPointers":            packPointers,
		"packWorkspace":           packWorkspace,
		"engineNotes":             engineNotes,
		"modeFallback":            modeFallback,
		"modeA":                   modeA,
		"noteTensorCore":          noteTensorCore,
		"noteDownConvert":         noteDownConvert,
		"noteReducedReduction":    noteReducedReduction,
		"noteFFT":                 noteFFT,
		"noteNondeterministic":    noteNondeterministic,
		"noteWinograd":            noteWinograd,
		"sizeof(handle)":          unsafe.Sizeof(Library{}.handle),
		"sizeof(descriptor)":      unsafe.Sizeof(descriptor(0)),
		"sizeof(dataType)":        unsafe.Sizeof(e),
		"sizeof(convolutionMode)": unsafe.Sizeof(e),
		"sizeof(heuristicMode)":   unsafe.Sizeof(e),
		"sizeof(numericalNote)":   unsafe.Sizeof(e),
	})
}
