package cudaexec

import (
	"testing"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/dl"
	"github.com/pinion-gpu/pinion/step/internal/cudnn"
	"github.com/pinion-gpu/pinion/step/internal/cudnn/cudnntest"
)

// hostLibrary takes the library's place where kernels run on the host.
type hostLibrary struct {
	caller device.Caller
	plans  map[*cudnn.Plan]cudnn.Problem
}

func (h *hostLibrary) Plan(problem cudnn.Problem) (*cudnn.Plan, error) {
	if err := problem.Check(); err != nil {
		return nil, err
	}
	p := new(cudnn.Plan)
	h.plans[p] = problem
	return p, nil
}

func (h *hostLibrary) Run(s device.Stream, p *cudnn.Plan, _ device.Ptr, operands ...device.Ptr) error {
	array := func(i int, elements, width int) []byte {
		if operands[i] == 0 {
			return nil
		}
		return unsafe.Slice((*byte)(dl.Pointer(uintptr(operands[i]))), elements*width)
	}
	return h.caller.Call(s, func() error {
		switch c := h.plans[p].(type) {
		case cudnn.Convolution:
			width := c.Type.Size()
			cudnntest.Compute(c, array(0, size(c.Image), width), array(1, size(c.Filter), width), array(2, size(c.Result), width))
		case cudnn.Attention:
			q, k, width := c.Batch*c.Heads*c.Queries*c.Each, c.Batch*c.KeyHeads*c.Keys*c.Each, c.Type.Size()
			arrays := [][]byte{array(0, q, width), array(1, k, width), array(2, k, width), array(3, q, width), array(4, c.Batch*c.Heads*c.Queries, 4)}
			if c.Backward {
				arrays = append(arrays, array(5, q, width), array(6, q, width), array(7, k, width), array(8, k, width))
			}
			cudnntest.Attend(c, arrays...)
		}
		return nil
	})
}

func (h *hostLibrary) Close() error { return nil }

// openLibraryTest is openTest with a library.
func openLibraryTest(t testing.TB) *executor {
	e := openTest(t)
	if s, ok := e.launcher.(*shim); ok {
		e.library = func() (library, error) { return &hostLibrary{s.caller, map[*cudnn.Plan]cudnn.Problem{}}, nil }
	} else if _, err := e.library(); err != nil {
		t.Skip(err)
	}
	return e
}
