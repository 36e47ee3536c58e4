package shard

import "time"

// WithBlocks makes blocks small and pauses short.
func (o Options) WithBlocks(bytes int64) Options {
	o.blockBytes, o.firstPause = bytes, time.Millisecond
	return o
}
