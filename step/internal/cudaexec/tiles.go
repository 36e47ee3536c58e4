package cudaexec

import (
	"fmt"

	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/internal/cudac"
)

// seen is where a convolution reads an element.
type seen struct {
	image, kernel []string // axes
	inside        string   // condition: the image has it
}

// sees is where a ConvGeneral reads for a place of its result and of its kernel: in, the
// kernel's input channel and then its place along each spatial axis.
func sees(k *kernel, v graph.Value, group string, at, in []string) seen {
	n := v.Node()
	a := n.Attr.(*graph.ConvAxes)
	image, filter := n.Inputs[0].Shape().Dims, n.Inputs[1].Shape().Dims
	s := seen{make([]string, len(image)), make([]string, len(filter)), "1"}
	s.kernel[a.KernelInput], s.kernel[a.KernelOutput] = in[0], at[a.ResultChannels]
	s.image[a.ImageChannels] = in[0]
	if a.ChannelGroups > 1 {
		s.image[a.ImageChannels] = k.defineIndex("%s * %d + %s", group, filter[a.KernelInput], in[0])
	}
	s.image[a.ImageBatch] = at[a.ResultBatch]
	if a.BatchGroups > 1 {
		s.image[a.ImageBatch] = k.defineIndex("%s * %d + %s", group, image[a.ImageBatch]/a.BatchGroups, at[a.ResultBatch])
	}
	for i, axis := range a.ImageSpatial {
		s.kernel[a.KernelSpatial[i]] = in[1+i]
		p := k.defineIndex("%s * %d + %s * %d - (%d)", at[a.ResultSpatial[i]], a.Strides[i], in[1+i], a.KernelDilation[i], a.Low[i])
		s.inside += fmt.Sprintf(" && %s >= 0", p)
		if a.Dilation[i] > 1 {
			s.inside += fmt.Sprintf(" && %s %% %d == 0", p, a.Dilation[i])
			p = k.defineIndex("%s / %d", p, a.Dilation[i])
		}
		s.inside += fmt.Sprintf(" && %s < %s", p, k.number(image[axis]))
		s.image[axis] = p
	}
	return s
}

// groupsOf is how many groups a ConvGeneral has, and how many channels each makes.
func groupsOf(v graph.Value) (groups, made int) {
	a := v.Node().Attr.(*graph.ConvAxes)
	groups = max(a.ChannelGroups, a.BatchGroups)
	return groups, v.Shape().Dims[a.ResultChannels] / groups
}

// depthOf is what a ConvGeneral adds up: input channels, and places of the kernel.
func depthOf(v graph.Value) []int {
	a := v.Node().Attr.(*graph.ConvAxes)
	filter := v.Node().Inputs[1].Shape().Dims
	dims := []int{filter[a.KernelInput]}
	for _, axis := range a.KernelSpatial {
		dims = append(dims, filter[axis])
	}
	return dims
}

// convolution is a ConvGeneral of integers: a thread adds up one element.
func convolution(k *kernel, v graph.Value, at []string) string {
	n := v.Node()
	a := n.Attr.(*graph.ConvAxes)
	t := v.Shape().Type
	acc := k.variable()
	k.printf("%s %s = 0;", cudac.ComputedIn(t), acc)
	groups, made := groupsOf(v)
	group := "0"
	if groups > 1 {
		group = k.defineIndex("%s / %d", at[a.ResultChannels], made)
	}
	k.loops("k", depthOf(v), func(in []string) {
		s := sees(k, v, group, at, in)
		k.push()
		e, f := k.pull(n.Inputs[0], index{axes: s.image}), k.pull(n.Inputs[1], index{axes: s.kernel})
		k.printf("%s = (%s)((u64)%s + (u64)%s * (u64)%s);", acc, cudac.ComputedIn(t), acc, e, f)
		body := k.pop()
		k.printf("if (%s) {\n%s}", s.inside, body)
	})
	return cudac.Rounded(t, acc)
}

// A tile of a convolution: so many places, and as many channels, of the result; what they
// are sums of is brought to shared memory in slices.
const (
	tileSide  = 64
	tileSlice = 16
)

// tiledConvolution is a ConvGeneral as a product of matrices, one of which is never
// written out: what kernels see from each place of the result, and kernels. A block makes
// a tile of the result, a thread 4 x 4 elements of it.
func (u *unit) tiledConvolution(v graph.Value) launch {
	n := v.Node()
	a := n.Attr.(*graph.ConvAxes)
	x, w, t := n.Inputs[0], n.Inputs[1], v.Shape().Type
	out := v.Shape().Dims
	groups, made := groupsOf(v)
	places := []int{out[a.ResultBatch]}
	for _, axis := range a.ResultSpatial {
		places = append(places, out[axis])
	}
	// Input channels change fastest: images mostly lie so.
	depth := depthOf(v)
	order := append(depth[1:len(depth):len(depth)], depth[0])
	total := size(depth)
	down, across := (size(places)+tileSide-1)/tileSide, (made+tileSide-1)/tileSide
	tiles := down * across * groups

	k := u.alone(v)
	i, c := k.indexType(), cudac.ComputedIn(t)
	// at is where in the result a place of the group's channel is.
	at := func(place, channel string) []string {
		list := make([]string, len(out))
		p := k.along(index{at: place}, places)
		list[a.ResultBatch], list[a.ResultChannels] = p[0], channel
		for i, axis := range a.ResultSpatial {
			list[axis] = p[1+i]
		}
		return list
	}
	// in is what of the kernel an index of the sum is.
	in := func(at string) []string {
		p := k.along(index{at: at}, order)
		return append([]string{p[len(p)-1]}, p[:len(p)-1]...)
	}
	k.printf("__shared__ %s left[%d][%d], right[%d][%d];", c, tileSlice, tileSide+1, tileSlice, tileSide)
	k.push() // tiles
	k.printf("const %s across = t %% %d * %d, down = t / %d %% %s * %d, group = t / %s;", i, across, tileSide, across, k.number(down), tileSide, k.number(down*across))
	k.printf("%s acc[4][4];", c)
	k.printf("for (int y = 0; y < 4; y++) for (int x = 0; x < 4; x++) acc[y][x] = 0;")
	k.push() // slices
	k.printf("const %s d = d0 + threadIdx.x %% %d;", i, tileSlice)
	load := func(inside string, to string, what func() string) {
		value := k.variable()
		k.printf("%s %s = 0;", c, value)
		k.push()
		k.printf("%s = %s;", value, what())
		body := k.pop()
		k.printf("if (%s) {\n%s}", inside, body)
		k.printf("%s = %s;", to, value)
	}
	whichDepth := in("d")
	for r := range tileSide * tileSlice / threads {
		row := k.defineIndex("threadIdx.x / %d + %d", tileSlice, r*threads/tileSlice)
		place := k.defineIndex("down + %s", row)
		s := sees(k, v, "group", at(place, "0"), whichDepth)
		load(fmt.Sprintf("d < %s && %s < %s && %s", k.number(total), place, k.number(size(places)), s.inside), fmt.Sprintf("left[threadIdx.x %% %d][%s]", tileSlice, row),
			func() string { return k.pull(x, index{axes: s.image}) })
	}
	k.printf("const %s channel = across + threadIdx.x %% %d;", i, tileSide)
	made1 := k.defineIndex("group * %d + channel", made)
	for r := range tileSide * tileSlice / threads {
		row := k.defineIndex("threadIdx.x / %d + %d", tileSide, r*threads/tileSide)
		e := k.defineIndex("d0 + %s", row)
		which := in(e)
		axes := make([]string, len(w.Shape().Dims))
		axes[a.KernelInput], axes[a.KernelOutput] = which[0], made1
		for i, axis := range a.KernelSpatial {
			axes[axis] = which[1+i]
		}
		load(fmt.Sprintf("%s < %s && channel < %s", e, k.number(total), k.number(made)), fmt.Sprintf("right[%s][threadIdx.x %% %d]", row, tileSide),
			func() string { return k.pull(w, index{axes: axes}) })
	}
	k.printf("__syncthreads();")
	k.printf("for (int s = 0; s < %d; s++)", tileSlice)
	k.printf("    for (int y = 0; y < 4; y++)")
	k.printf("        for (int x = 0; x < 4; x++) acc[y][x] += left[s][threadIdx.x / 16 * 4 + y] * right[s][threadIdx.x %% 16 * 4 + x];")
	k.printf("__syncthreads();")
	body := k.pop()
	k.printf("for (%s d0 = 0; d0 < %s; d0 += %d) {\n%s%s}", i, k.number(total), tileSlice, body, k.scope.indent)
	k.push()
	k.printf("const %s place = down + threadIdx.x / 16 * 4 + y, channel = across + threadIdx.x %% 16 * 4 + x;", i)
	k.push()
	made2 := k.defineIndex("group * %d + channel", made)
	k.printf("st(((%s *)%s)[%s], %s);", cudac.Stored(t), k.pointer(v), k.place(index{axes: at("place", made2)}, out), cudac.Rounded(t, "acc[y][x]"))
	body = k.pop()
	k.printf("if (place < %s && channel < %s) {\n%s}", k.number(size(places)), k.number(made), body)
	body = k.pop()
	k.printf("for (int y = 0; y < 4; y++) for (int x = 0; x < 4; x++) {\n%s%s}", body, k.scope.indent)
	body = k.pop()
	k.printf("for (%s t = blockIdx.x; t < %s; t += gridDim.x) {\n%s    }", i, k.number(tiles), body)
	l := launch{name: "ConvGeneral", grid: [2]int{min(tiles, 8*mostBlocks), 1}}
	l.fill(k)
	return l
}
