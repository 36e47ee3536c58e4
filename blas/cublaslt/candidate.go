package cublaslt

import (
	"slices"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
)

// candidate is an algorithm that the library offers for a problem.
type candidate struct {
	algorithm
	configuration
}

// configuration identifies an algorithm: to the process of another day, too. The bytes of
// the algorithm itself need not be the same from handle to handle.
type configuration struct {
	ID           int32  `json:"id"`
	Tile         uint32 `json:"tile"`
	SplitK       uint32 `json:"split_k"`
	Reduction    uint32 `json:"reduction"`
	Swizzling    uint32 `json:"swizzling"`
	Custom       uint32 `json:"custom"`
	Stages       uint32 `json:"stages"`
	InnerShape   uint16 `json:"inner_shape"`
	ClusterShape uint16 `json:"cluster_shape"`
}

// attribute is one of a configuration: the library wants to be asked with its size.
type attribute struct {
	number uintptr
	at     unsafe.Pointer
	size   uintptr
}

func (c *configuration) attributes() []attribute {
	return []attribute{
		{configID, unsafe.Pointer(&c.ID), unsafe.Sizeof(c.ID)},
		{configTile, unsafe.Pointer(&c.Tile), unsafe.Sizeof(c.Tile)},
		{configSplitK, unsafe.Pointer(&c.SplitK), unsafe.Sizeof(c.SplitK)},
		{configReduction, unsafe.Pointer(&c.Reduction), unsafe.Sizeof(c.Reduction)},
		{configSwizzling, unsafe.Pointer(&c.Swizzling), unsafe.Sizeof(c.Swizzling)},
		{configCustom, unsafe.Pointer(&c.Custom), unsafe.Sizeof(c.Custom)},
		{configStages, unsafe.Pointer(&c.Stages), unsafe.Sizeof(c.Stages)},
		{configInnerShape, unsafe.Pointer(&c.InnerShape), unsafe.Sizeof(c.InnerShape)},
		{configClusterShape, unsafe.Pointer(&c.ClusterShape), unsafe.Sizeof(c.ClusterShape)},
	}
}

func configurationOf(a *algorithm) (c configuration, err error) {
	for _, x := range c.attributes() {
		if err := check("cublasLtMatmulAlgoConfigGetAttribute",
			api.configGet.Call(uintptr(unsafe.Pointer(a)), x.number, uintptr(x.at), x.size, 0)); err != nil {
			return c, err
		}
	}
	return c, nil
}

// candidates asks for those of a problem. Of algorithms of one configuration, the first
// is taken. Called with mu held and the device's context current.
func (m *multiplier) candidates(r *routine, p *problem, bias device.Ptr) (list []candidate, err error) {
	results, err := m.ask(r, p, bias, mostCandidates)
	if err != nil {
		return nil, err
	}
	for i := range results {
		a := &results[i].algorithm
		c, err := configurationOf(a)
		if err != nil {
			return nil, err
		}
		if _, ok := find(list, c); !ok {
			list = append(list, candidate{*a, c})
		}
	}
	return list, nil
}

// find looks for a configuration among those that the library offers: no other is ever
// run.
func find(list []candidate, c configuration) (int, bool) {
	i := slices.IndexFunc(list, func(x candidate) bool { return x.configuration == c })
	return i, i >= 0
}
