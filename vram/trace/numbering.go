package trace

import "fmt"

// numbering gives handles small numbers in order of appearance.
type numbering map[uint64]int

// maxStreams bounds the memory for handles.
const maxStreams = 1 << 16

func (n numbering) number(handle uint64) (int, error) {
	if i, ok := n[handle]; ok {
		return i, nil
	}
	if len(n) == maxStreams {
		return 0, fmt.Errorf("more than %d streams", maxStreams)
	}
	n[handle] = len(n)
	return len(n) - 1, nil
}
