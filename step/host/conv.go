package host

import (
	"github.com/pinion-gpu/pinion/blas"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/graph"
)

func init() {
	compilers[graph.ConvGeneral] = (*executor).conv
}

// convolution is one as products of matrices: for each group, the pixels of the result,
// each with what its kernels see, times the kernels.
type convolution struct {
	pixels   walk    // of one group: batch, then spatial axes; strides of the result
	batches  int     // in a group
	images   int     // stride of the image's batch
	seen     [][]int // for each spatial axis, for each place and each of the kernel's elements, the image's offset; -1 outside
	kernel   walk    // of one group: spatial axes, input channels, output channels; strides of the kernel
	channels walk    // of the image, in one group
	made     int     // output channels of a group
	apart    int     // stride of the result's channels

	groups                            int
	imageGroup, kernelGroup, outGroup int // from one group to the next
}

func convolutionOf(n *graph.Node) *convolution {
	a := n.Attr.(*graph.ConvAxes)
	x, k, out := n.Inputs[0].Shape(), n.Inputs[1].Shape(), n.Shapes[0]
	xs, ks, outs := strides(x.Dims), strides(k.Dims), strides(out.Dims)
	c := &convolution{groups: a.ChannelGroups * a.BatchGroups, images: xs[a.ImageBatch], apart: outs[a.ResultChannels], batches: out.Dims[a.ResultBatch]}
	c.made = out.Dims[a.ResultChannels] / c.groups
	c.pixels = walk{[]int{out.Dims[a.ResultBatch]}, [][]int{{outs[a.ResultBatch]}}}
	c.kernel = walk{nil, [][]int{nil}}
	for i, axis := range a.ResultSpatial {
		size := k.Dims[a.KernelSpatial[i]]
		c.pixels.dims = append(c.pixels.dims, out.Dims[axis])
		c.pixels.strides[0] = append(c.pixels.strides[0], outs[axis])
		c.kernel.dims = append(c.kernel.dims, size)
		c.kernel.strides[0] = append(c.kernel.strides[0], ks[a.KernelSpatial[i]])
		d, apart := x.Dims[a.ImageSpatial[i]], xs[a.ImageSpatial[i]]
		var seen []int
		for place := range out.Dims[axis] {
			for e := range size {
				at := place*a.Strides[i] + e*a.KernelDilation[i] - a.Low[i]
				if at < 0 || at%a.Dilation[i] != 0 || at/a.Dilation[i] >= d {
					seen = append(seen, -1)
				} else {
					seen = append(seen, at/a.Dilation[i]*apart)
				}
			}
		}
		c.seen = append(c.seen, seen)
	}
	c.kernel.dims = append(c.kernel.dims, k.Dims[a.KernelInput], c.made)
	c.kernel.strides[0] = append(c.kernel.strides[0], ks[a.KernelInput], ks[a.KernelOutput])
	c.channels = walk{[]int{k.Dims[a.KernelInput]}, [][]int{{xs[a.ImageChannels]}}}
	c.kernelGroup = c.made * ks[a.KernelOutput]
	c.outGroup = c.made * c.apart
	if a.ChannelGroups > 1 {
		c.imageGroup = k.Dims[a.KernelInput] * xs[a.ImageChannels]
	} else {
		c.imageGroup = c.batches * c.images
	}
	return c
}

// depth is how many products a result is the sum of.
func (c *convolution) depth() int { return product(c.kernel.dims) / max(c.made, 1) }

// look writes what the kernels see from some of the pixels of a group, a row for each.
func look[A number](c *convolution, rows []A, image []byte, read func([]byte, int) A, group, first, count int) {
	depth := c.depth()
	channels, apart := c.channels.dims[0], c.channels.strides[0][0]
	spatial := c.kernel.dims[:len(c.kernel.dims)-2]
	elements := walk{dims: spatial}
	parallel(count, max(grain/depth, 1), func(from, to int) {
		p := c.pixels.at(first + from)
		for r := from; r < to; r++ {
			row := rows[r*depth:][:depth]
			base := group*c.imageGroup + p.index[0]*c.images
			e := elements.at(0)
			for range product(spatial) {
				at, inside := base, true
				for i, size := range spatial {
					o := c.seen[i][p.index[i+1]*size+e.index[i]]
					inside = inside && o >= 0
					at += o
				}
				if inside {
					for j := range row[:channels] {
						row[j] = read(image, at+j*apart)
					}
				} else {
					clear(row[:channels])
				}
				row = row[channels:]
				e.next()
			}
			p.next()
		}
	})
}

// kernels writes the kernels of a group as a matrix.
func kernels[A number](c *convolution, matrix []A, kernel []byte, read func([]byte, int) A, group int) {
	parallel(len(matrix), grain, func(from, to int) {
		k := c.kernel.at(from)
		for i := from; i < to; i++ {
			matrix[i] = read(kernel, group*c.kernelGroup+k.offsets[0])
			k.next()
		}
	})
}

// put writes results of some of the pixels of a group.
func put[A number](c *convolution, out []byte, rows []A, write func([]byte, int, A), group, first, count int) {
	parallel(count, max(grain/c.made, 1), func(from, to int) {
		p := c.pixels.at(first + from)
		for r := from; r < to; r++ {
			at := group*c.outGroup + p.offsets[0]
			for j, v := range rows[r*c.made : (r+1)*c.made] {
				write(out, at+j*c.apart, v)
			}
			p.next()
		}
	})
}

// mostSeen is about how many elements of what kernels see are there at a time.
const mostSeen = 1 << 20

func (e *executor) conv(t *step.Task) (step.Kernel, error) {
	n := t.Nodes[0]
	c := convolutionOf(n)
	pixels, depth := product(c.pixels.dims), c.depth()
	typ := n.Shapes[0].Type
	switch {
	case n.Shapes[0].Size() == 0:
		return e.single(t, func(_, _ [][]byte) {}), nil
	case depth == 0:
		return e.single(t, func(_, out [][]byte) { clear(out[0]) }), nil
	}
	rows := min(max(mostSeen/depth, 1), pixels)
	switch {
	case !typ.IsFloat():
		return e.single(t, convInGo(c, rows, integerReader(typ), integerWriter(typ))), nil
	case typ == dtype.F64:
		return e.single(t, convInGo(c, rows, floatReader[float64](typ), floatWriter[float64](typ))), nil
	}
	k := e.sequence(t)
	seen := k.memory(int64(rows * depth * 4))
	matrix := k.memory(int64(depth * c.made * 4))
	made := k.memory(int64(rows * c.made * 4))
	read, write := floatReader[float32](typ), floatWriter[float32](typ)
	for group := range c.groups {
		k.call(func(m [][]byte) { kernels(c, view[float32](m[matrix]), m[1], read, group) })
		for first := 0; first < pixels; first += rows {
			count := min(rows, pixels-first)
			k.call(func(m [][]byte) { look(c, view[float32](m[seen]), m[0], read, group, first, count) })
			k.multiply(blas.Gemm{M: int64(count), N: int64(c.made), K: int64(depth), Type: dtype.F32}, place{memory: seen}, place{memory: matrix}, place{memory: made})
			k.call(func(m [][]byte) { put(c, m[k.in], view[float32](m[made]), write, group, first, count) })
		}
	}
	return k, nil
}

func convInGo[A number](c *convolution, rows int, read func([]byte, int) A, write func([]byte, int, A)) function {
	return func(in, out [][]byte) {
		depth, pixels := c.depth(), product(c.pixels.dims)
		seen, matrix, made := make([]A, rows*depth), make([]A, depth*c.made), make([]A, rows*c.made)
		for group := range c.groups {
			kernels(c, matrix, in[1], read, group)
			for first := 0; first < pixels; first += rows {
				count := min(rows, pixels-first)
				look(c, seen, in[0], read, group, first, count)
				parallel(count, max(grain/(depth*c.made), 1), func(from, to int) {
					for r := from; r < to; r++ {
						sums := made[r*c.made:][:c.made]
						clear(sums)
						for i, a := range seen[r*depth:][:depth] {
							for j, b := range matrix[i*c.made:][:c.made] {
								sums[j] += a * b
							}
						}
					}
				})
				put(c, out[0], made, write, group, first, count)
			}
		}
	}
}
