package points

import (
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/pinion-gpu/pinion/dataset"
)

// A .bin file of KITTI (https://www.cvlibs.net/datasets/kitti/) or nuScenes is
// float32, little-endian, point by point, and nothing else.

// kittiPoints returns the points of a file of that size.
func kittiPoints(size int64, columns int) (int, error) {
	point := int64(4 * columns)
	if size%point != 0 {
		return 0, fmt.Errorf("%w: %d bytes are not a whole number of points of %d float32", dataset.ErrDamaged, size, columns)
	}
	return int(size / point), nil
}

// layouts are the numbers of a point that .bin files are known to have.
var layouts = []int{4, 5}

// guess is what names and sizes say of the numbers of a point, where nobody has.
type guess struct {
	columns int
	named   bool            // the names say so
	unlike  [2]atomic.Int64 // .bin files that are not of each layout
	files   atomic.Int64    // .bin files with points
}

// newGuess takes the layout that the names of most files stand for.
func newGuess(folder *dataset.Folder) *guess {
	nuScenes := 0
	for i := range folder.Len() {
		if strings.HasSuffix(strings.ToLower(folder.Name(i)), ".pcd.bin") {
			nuScenes++
		}
	}
	g := &guess{columns: layouts[0]}
	if nuScenes > folder.Len()/2 {
		g.columns, g.named = layouts[1], true
	}
	return g
}

// see takes in the size of a .bin file. Several goroutines call it.
func (g *guess) see(size int64) {
	if size == 0 {
		return
	}
	g.files.Add(1)
	for i, columns := range layouts {
		if size%int64(4*columns) != 0 {
			g.unlike[i].Add(1)
		}
	}
}

// verdict returns a warning where the files may be of another layout than the one
// that was taken, and otherwise adds to an error which one they seem to be of.
func (g *guess) verdict(err error) ([]string, error) {
	for i, columns := range layouts {
		switch {
		case columns == g.columns || g.unlike[i].Load() > 0 || g.files.Load() == 0:
		case err != nil:
			return nil, fmt.Errorf("%w; the size of every .bin file fits points of %d numbers (Columns, --columns)", err, columns)
		case !g.named:
			return []string{fmt.Sprintf("the size of every .bin file fits points of %d and of %d numbers; they are read as %d (Columns, --columns)", g.columns, columns, g.columns)}, nil
		}
	}
	return nil, err
}
