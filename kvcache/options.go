package kvcache

import (
	"errors"
	"fmt"
	"math"

	"github.com/pinion-gpu/pinion/internal/errs"
)

var (
	// ErrArgument: options or calls that cannot be right.
	ErrArgument = errs.ErrArgument
	// ErrFull: all blocks of the device are in use by sequences.
	ErrFull = errors.New("no block is free")
	// ErrTenant: all blocks that a tenant may have are in use by its sequences.
	ErrTenant = errors.New("the tenant has all blocks that it may have")
	// ErrClosed: the sequence is closed.
	ErrClosed = errors.New("closed")
)

// Options says what there is.
type Options struct {
	// BlockTokens is how many tokens a block is for. Default: 16.
	BlockTokens int
	// Blocks is how many there are on the device.
	Blocks int
	// HostBlocks is how many there are on the host, for blocks that leave the device. Default:
	// 0, they are forgotten.
	HostBlocks int

	// Window is how many of the last tokens a sequence attends to: a block before them is let
	// go, but for those with the first Sinks tokens (Xiao et al., Efficient Streaming Language
	// Models with Attention Sinks, 2023). Default: 0, all tokens.
	Window, Sinks int

	// TenantBlocks is how many blocks of the device a tenant may have, and TenantHostBlocks how
	// many of the host, where he makes room of his own then. They are asked when a tenant has
	// nothing in the cache. Default: nil, all.
	TenantBlocks, TenantHostBlocks func(tenant string) int

	// Cost is what it takes to compute the block again that begins at a token, in any unit;
	// what is no number, negative or infinite counts as 0. Default: nil, all blocks cost the
	// same, and the least recently used one is evicted.
	Cost func(position int) float64
}

func (o Options) withDefaults() (Options, error) {
	if o.BlockTokens == 0 {
		o.BlockTokens = 16
	}
	switch {
	case o.BlockTokens < 1 || o.BlockTokens > 1<<20 || o.Blocks < 1 || o.HostBlocks < 0 || o.Blocks > math.MaxInt32/2 || o.HostBlocks > math.MaxInt32/2 ||
		(o.Blocks+o.HostBlocks) > math.MaxInt/8/o.BlockTokens:
		return o, fmt.Errorf("kvcache: %w: %d blocks of %d tokens, and %d on the host", ErrArgument, o.Blocks, o.BlockTokens, o.HostBlocks)
	case o.Window < 0 || o.Sinks < 0 || o.Sinks > math.MaxInt32 || o.Sinks > 0 && o.Window == 0:
		return o, fmt.Errorf("kvcache: %w: a window of %d tokens, with %d before it", ErrArgument, o.Window, o.Sinks)
	}
	return o, nil
}
