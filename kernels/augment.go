package kernels

import (
	"github.com/pinion-gpu/pinion/device"
)

// augmentJob is Normalize with tables of colours, or mixing, or both.
type augmentJob struct {
	normalizeJob
	colours, mix device.Ptr // zero without
}

// checkTables checks all operands of a Normalize that has tables, where there
// is work to do.
func (p Normalize) checkTables(dst, src operand) error {
	tableBytes, err := product("N and the size of a table's entries", int64(p.N), ColourBytes)
	if err != nil {
		return err
	}
	colours := operand{"Colours", p.Colours, 0, 8}
	mix := operand{"Mix", p.Mix, 0, 4}
	if p.Colours != 0 {
		colours.bytes = tableBytes
	}
	if p.Mix != 0 {
		mix.bytes = int64(p.N) * 4
	}
	if err := checkOperands(dst, src, colours, mix); err != nil {
		return err
	}
	return checkOperands(colours, src, mix)
}

const sumsKernel = "colour_sums"

// sums is where the sums of grey are, behind the colours.
func (j *augmentJob) sums() device.Ptr { return j.colours.Add(j.images * colourEntryBytes) }

func (j *augmentJob) launch(k *Set, s device.Stream) error {
	// Some pixels a thread, so that what is worked out for a whole image and
	// the additions in memory do not count.
	const perThread = 8
	grid := device.Grid{
		BlocksX: blocksFor(j.pixels, perThread*threads),
		BlocksY: int(min(j.images, mostBlocksY)),
		Threads: threads,
	}
	if j.colours != 0 {
		if err := s.Memset(j.sums(), 0, j.images*greySumBytes); err != nil {
			return err
		}
		var args device.Args
		args.Ptr(j.sums()).Ptr(j.src).Ptr(j.colours).Int64(j.images).Int64(j.pixels)
		if err := k.kernels[j.kernel(sumsKernel)].Launch(s, grid, &args); err != nil {
			return err
		}
	}
	var args device.Args
	args.Ptr(j.dst).Ptr(j.src).Ptr(j.colours).Ptr(j.sums()).Ptr(j.mix)
	args.Int64(j.images).Int64(j.pixels).Int32(int32(j.channels))
	for _, v := range append(j.scale[:], j.bias[:]...) {
		args.Float32(v)
	}
	return k.kernels[j.kernel("augment_"+j.dt.String())].Launch(s, grid, &args)
}
