package points

import (
	"fmt"

	"github.com/pinion-gpu/pinion/dataset"
)

// A .bin file of KITTI (https://www.cvlibs.net/datasets/kitti/) or nuScenes is
// float32, little-endian, point by point, and nothing else.

// kittiPoints returns the points of a file of that size.
func kittiPoints(size int64, columns int) (int, error) {
	point := int64(4 * columns)
	if size%point != 0 {
		return 0, fmt.Errorf("%w: %d bytes are no whole points of %d float32", dataset.ErrDamaged, size, columns)
	}
	return int(size / point), nil
}
