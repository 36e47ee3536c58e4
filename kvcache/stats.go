package kvcache

// Stats are the figures of a cache.
type Stats struct {
	Blocks     int // on the device
	Used       int // of them, those that sequences have
	Kept       int // and those that nobody has, and that can be found
	HostBlocks int // on the host
	HostKept   int

	Tokens int // in blocks that sequences have, each counted once
	Room   int // for tokens in these blocks

	AskedTokens int64 // that sequences were opened with
	HitTokens   int64 // of them, those that were there

	Out, In   int64 // blocks that left the device for the host, and came back
	Copied    int64 // blocks that were copied before they were written to
	Forgotten int64 // blocks that had to go for good
}

// Waste is which part of the used blocks is empty.
func (s Stats) Waste() float64 {
	if s.Room == 0 {
		return 0
	}
	return 1 - float64(s.Tokens)/float64(s.Room)
}

// Hits is which part of the tokens of prompts was there.
func (s Stats) Hits() float64 {
	if s.AskedTokens == 0 {
		return 0
	}
	return float64(s.HitTokens) / float64(s.AskedTokens)
}

// Stats counts. It looks at all blocks; [Cache.Free] does not.
func (c *Cache) Stats() Stats {
	s := c.stats
	s.Blocks, s.HostBlocks = c.o.Blocks, c.o.HostBlocks
	for i := range c.blocks {
		switch b := &c.blocks[i]; {
		case b.id == 0:
		case b.refs > 0:
			s.Used++
			s.Tokens += b.filled
		case b.slot >= 0:
			s.Kept++
		default:
			s.HostKept++
		}
	}
	s.Room = s.Used * c.o.BlockTokens
	return s
}
