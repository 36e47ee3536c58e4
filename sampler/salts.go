package sampler

// Samplers of different kinds draw different numbers from the same seed.
const (
	saltRandom = iota + 1
	saltReplacement
	saltWeighted
	saltMembers
	saltBatches
	saltShuffle
	saltKey
	saltBlocks
	saltWithin
)
