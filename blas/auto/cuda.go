package auto

import (
	"errors"
	"fmt"
	"sync"

	"github.com/pinion-gpu/pinion/blas"
	"github.com/pinion-gpu/pinion/blas/cublaslt"
	"github.com/pinion-gpu/pinion/blas/cusparselt"
	"github.com/pinion-gpu/pinion/device"
)

// cuda is cuBLASLt, with cuSPARSELt beside it from when it is asked for.
type cuda struct {
	blas.Tuner
	dev device.Device

	mu     sync.Mutex
	sparse *cusparselt.Library
	closed bool
}

func openCUDA(dev device.Device) (blas.BLAS, error) {
	dense, err := cublaslt.Open(dev)
	if err != nil {
		return nil, err
	}
	return &cuda{Tuner: dense.(blas.Tuner), dev: dev}, nil
}

// Sparse implements [blas.Sparser].
func (c *cuda) Sparse(g blas.Gemm) (blas.SparseGemm, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, fmt.Errorf("blas: %w", device.ErrClosed)
	}
	if c.sparse == nil {
		l, err := cusparselt.Open(c.dev)
		if err != nil {
			return nil, err
		}
		c.sparse = l
	}
	p, err := c.sparse.Plan(g)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Close implements [blas.BLAS].
func (c *cuda) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	var err error
	if c.sparse != nil {
		err = c.sparse.Close()
	}
	return errors.Join(err, c.Tuner.Close())
}

var _ blas.Sparser = (*cuda)(nil)
