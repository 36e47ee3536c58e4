package pickle

import "fmt"

// measuring marks a container whose contents are being walked; meeting it
// again means that it holds itself.
const measuring = -1

// measure returns how many levels of containers v has, and fails when they
// exceed MaxDepth below the given level or form a cycle.
func measure(v any, level int) (int, error) {
	switch v := v.(type) {
	case *List:
		return measureItems(&v.depth, v.Items, nil, level)
	case *Tuple:
		return measureItems(&v.depth, v.Items, nil, level)
	case *Dict:
		return measureItems(&v.depth, nil, v.Items, level)
	}
	return 0, nil
}

// measureItems measures a container by its items or pairs. The container keeps
// its depth, so that a shared one is walked once.
func measureItems(depth *int32, items []any, pairs []Item, level int) (int, error) {
	switch {
	case *depth == measuring:
		return 0, fmt.Errorf("%w: a container holds itself", ErrMalformed)
	case level+max(1, int(*depth)) > MaxDepth:
		return 0, fmt.Errorf("%w: containers are nested deeper than %d levels", ErrMalformed, MaxDepth)
	case *depth > 0:
		return int(*depth), nil
	}
	*depth = measuring
	deepest := 0
	for _, item := range items {
		below, err := measure(item, level+1)
		if err != nil {
			return 0, err
		}
		deepest = max(deepest, below)
	}
	for _, pair := range pairs {
		key, err := measure(pair.Key, level+1)
		if err != nil {
			return 0, err
		}
		value, err := measure(pair.Value, level+1)
		if err != nil {
			return 0, err
		}
		deepest = max(deepest, key, value)
	}
	*depth = int32(deepest + 1)
	return deepest + 1, nil
}
