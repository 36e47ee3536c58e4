package vram

import "fmt"

// Purpose says what memory is for. Accounts, limits and reports are kept by
// purpose.
type Purpose uint8

// The purposes that memory can have. The zero value is Other.
const (
	Other Purpose = iota
	Weights
	Gradients
	Optimizer
	Activations
	Batch
	KVCache
	Workspace
	Staging
	purposes // how many there are
)

var purposeNames = [purposes]string{
	"other", "weights", "gradients", "optimizer", "activations", "batch", "kvcache", "workspace", "staging",
}

// String returns the name of p in lower case.
func (p Purpose) String() string {
	if p >= purposes {
		return fmt.Sprintf("Purpose(%d)", uint8(p))
	}
	return purposeNames[p]
}

// ParsePurpose returns the purpose of that name.
func ParsePurpose(name string) (Purpose, bool) {
	for p, n := range purposeNames {
		if n == name {
			return Purpose(p), true
		}
	}
	return Other, false
}

// Purposes lists all purposes in order.
func Purposes() []Purpose {
	list := make([]Purpose, purposes)
	for i := range list {
		list[i] = Purpose(i)
	}
	return list
}
