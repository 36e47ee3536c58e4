package staging

import (
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/transfer/linkmodel"
)

// Plan is how a copy is carried out. Without copiers it is not staged.
type Plan struct {
	linkmodel.Staging
	Least, Most int64 // bytes of a chunk: about what the first ones have, and the largest
}

// Copying a smaller chunk would take less time than queueing it does.
const (
	minChunk  = 128 << 10
	goodChunk = 256 << 10
)

// PlanOf cuts n bytes for slots of so many bytes.
func PlanOf(s linkmodel.Staging, n, slot int64) Plan {
	least := min(max(n/16, minChunk), goodChunk)
	return Plan{s, pagemem.RoundUp(min(least, slot)), slot}
}
