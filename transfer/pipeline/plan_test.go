package pipeline

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/transfer"
	"github.com/pinion-gpu/pinion/transfer/linkmodel"
)

// The rule against the time that it is said to make least.
func TestChunkBytesFor(t *testing.T) {
	for _, total := range []int64{100 << 20, 1 << 30, 50 << 30} {
		for _, stages := range []int{2, 3} {
			for _, rate := range []float64{5e9, 50e9} {
				seconds := func(n int64) float64 { return 20e-6 + float64(n)/rate }
				timeWith := func(chunk int64) float64 {
					n := float64(total) / float64(chunk)
					return (n + float64(stages-1)) * seconds(chunk)
				}
				got := chunkBytesFor(total, stages, seconds)
				for _, other := range []float64{0.1, 0.5, 0.9, 1.1, 2, 10} {
					if timeWith(int64(float64(got)*other)) < timeWith(got) {
						t.Errorf("%d bytes, %d stages, %g bytes/s: chunks of %.1f times %d bytes are faster",
							total, stages, rate, other, got)
					}
				}
			}
		}
	}
	for _, c := range []struct{ total, want int64 }{
		{0, leastChunkBytes}, {1, leastChunkBytes}, {1 << 20, leastChunkBytes}, {math.MaxInt64, mostChunkBytes},
	} {
		if got := chunkBytesFor(c.total, 3, assumedSeconds(device.Link{})); got != c.want {
			t.Errorf("%d bytes: %d, want %d", c.total, got, c.want)
		}
	}
}

// Where there is a model, it says what a chunk takes.
func TestChunkSeconds(t *testing.T) {
	line := func(latency, rate float64) linkmodel.Curve {
		return linkmodel.Curve{{Bytes: 1 << 20, Seconds: latency + float64(1<<20)/rate}, {Bytes: 256 << 20, Seconds: latency + float64(256<<20)/rate}}
	}
	e, err := transfer.New(devicetest.OpenDiscrete(t, 1<<20), transfer.Options{Copiers: 4, Model: &linkmodel.Model{
		Paths: []linkmodel.Path{
			{Path: "plain", Curve: line(1e-5, 8e9)},
			{Path: "staged", Copiers: 4, Curve: line(1e-3, 40e9)}, // pays for large chunks
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	seconds := chunkSeconds(e, sized(1))
	for n, want := range map[int64]float64{2 << 20: 1e-5 + float64(2<<20)/8e9, 128 << 20: 1e-3 + float64(128<<20)/40e9} {
		if got := seconds(n); math.Abs(got-want) > 1e-8 {
			t.Errorf("%d bytes: %v s, want %v", n, got, want)
		}
	}
	if without, with := chunkBytesFor(2<<30, 2, assumedSeconds(device.Link{})), chunkBytesFor(2<<30, 2, seconds); with < 2*without {
		t.Errorf("chunks of %d bytes by the model, %d without: large ones pay", with, without)
	}
}

// planned is a device that is only asked about its memory and its link.
type planned struct {
	device.Device
	free int64
	link device.Link
}

func (d planned) Info() device.Info { return device.Info{Link: d.link} }
func (d planned) Memory() (device.Memory, error) {
	return device.Memory{FreeBytes: d.free, TotalBytes: 2 * d.free}, nil
}

// sized is a source and sink of which only the size matters.
type sized int64

func (s sized) Size() int64 { return int64(s) }
func (s sized) ReadTo(context.Context, *transfer.Engine, device.Ptr, int64, int64, func(int64, int64)) error {
	return nil
}
func (s sized) WriteFrom(context.Context, *transfer.Engine, device.Ptr, int64, int64, func(int64, int64)) error {
	return nil
}

func nothing(device.Stream, Chunk) error { return nil }

// Chunks cover In and Out exactly, in whole items, and their buffers fit.
func TestPlanRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	link := device.Link{Kind: "PCIe", MaxGen: 5, MaxWidth: 16}
	planned := planned{free: 1 << 30, link: link}
	size := func(most int64) int64 { return 1 + rng.Int64N(int64(1)<<rng.IntN(int(math.Log2(float64(most))))) }
	for range 3000 {
		p := Pipeline{Compute: nothing, ItemBytes: size(1 << 16), Buffers: rng.IntN(4)}
		items := size(1 << 20)
		p.In = sized(items * p.ItemBytes)
		outItem := int64(0)
		if rng.IntN(3) > 0 {
			outItem = p.ItemBytes
			if p.InPlace = rng.IntN(2) == 0; !p.InPlace && rng.IntN(2) == 0 {
				outItem = size(1 << 16)
				p.OutItemBytes = outItem
			}
			p.Out = sized(items * outItem)
		}
		if rng.IntN(2) == 0 {
			p.ChunkBytes = p.ItemBytes * size(items+1)
		}
		plan, err := p.plan(planned, assumedSeconds(planned.link))
		if err != nil {
			t.Fatalf("%+v: %v", p, err)
		}
		var in, out int64
		for k := range plan.chunks {
			c, outOffset := plan.chunk(k)
			if c.Index != k || c.Offset != in || outOffset != out {
				t.Fatalf("%+v: chunk %d at %d and %d, want %d and %d", p, k, c.Offset, outOffset, in, out)
			}
			if c.InBytes <= 0 || c.InBytes%p.ItemBytes != 0 || c.OutBytes != c.InBytes/p.ItemBytes*outItem ||
				c.InBytes > plan.inSlot || !p.InPlace && c.OutBytes > plan.outSlot {
				t.Fatalf("%+v: chunk %+v in buffers of %d and %d bytes", p, c, plan.inSlot, plan.outSlot)
			}
			if p.ChunkBytes > 0 && k < plan.chunks-1 && c.InBytes != p.ChunkBytes {
				t.Fatalf("%+v: chunk of %d bytes", p, c.InBytes)
			}
			in, out = in+c.InBytes, out+c.OutBytes
		}
		if in != p.In.Size() || p.Out != nil && out != p.Out.Size() {
			t.Fatalf("%+v: chunks cover %d and %d bytes", p, in, out)
		}
		if plan.inSlot%256 != 0 || plan.outSlot%256 != 0 ||
			plan.deviceBytes != int64(plan.buffers)*(plan.inSlot+plan.outSlot) {
			t.Fatalf("%+v: %+v", p, plan)
		}
		if p.ChunkBytes == 0 && plan.deviceBytes > planned.free {
			t.Fatalf("%+v: %d bytes of device memory", p, plan.deviceBytes)
		}
	}
}

func TestPlanDefaultChunk(t *testing.T) {
	const MiB = 1 << 20
	link := device.Link{Kind: "PCIe", MaxGen: 5, MaxWidth: 16}
	for _, c := range []struct {
		name        string
		p           Pipeline
		free        int64
		least, most int64 // bytes of a chunk of In
	}{
		{"small", Pipeline{In: sized(100), Out: sized(100)}, 1 << 30, 100, 100},
		{"1 MiB at least", Pipeline{In: sized(5 * MiB), Out: sized(5 * MiB)}, 1 << 30, MiB, 3 * MiB},
		{"large", Pipeline{In: sized(10 << 30), Out: sized(10 << 30)}, 100 << 30, 50 * MiB, 100 * MiB},
		{"256 MiB at most", Pipeline{In: sized(1 << 50)}, 100 << 30, 255 * MiB, 256 * MiB},
		{"of the larger side", Pipeline{In: sized(1 << 50), Out: sized(1 << 52), OutItemBytes: 4}, 100 << 30, 63 * MiB, 64 * MiB},
		{"half of little memory", Pipeline{In: sized(10 << 30), Out: sized(10 << 30)}, 24 * MiB, 2*MiB - 8192, 2 * MiB},
		{"half of little memory, in place", Pipeline{In: sized(10 << 30), Out: sized(10 << 30), InPlace: true}, 24 * MiB, 4*MiB - 8192, 4 * MiB},
		{"1 MiB in more than half of it", Pipeline{In: sized(10 << 30), Out: sized(10 << 30)}, 7 * MiB, MiB - 8192, MiB},
		{"an item that is larger", Pipeline{In: sized(3000 * MiB), ItemBytes: 300 * MiB}, 4 << 30, 300 * MiB, 300 * MiB},
	} {
		c.p.Compute = nothing
		plan, err := c.p.plan(planned{free: c.free, link: link}, assumedSeconds(link))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := plan.chunkItems * plan.itemBytes; got < c.least || got > c.most {
			t.Errorf("%s: chunks of %d bytes, want %d to %d", c.name, got, c.least, c.most)
		}
	}
}

// Whole sectors, where items allow them.
func TestPlanSectors(t *testing.T) {
	for _, item := range []int64{1, 2, 12, 100, 4096} {
		p := Pipeline{In: sized(1e9 / item * item), ItemBytes: item, Compute: nothing}
		plan, err := p.plan(planned{free: 1 << 30}, assumedSeconds(device.Link{}))
		if err != nil {
			t.Fatal(err)
		}
		if got := plan.chunkItems * plan.itemBytes; got%4096 != 0 {
			t.Errorf("items of %d bytes: chunks of %d", item, got)
		}
	}
}

func TestPlanRefuses(t *testing.T) {
	const huge = math.MaxInt64
	array := make([]byte, 300)
	for _, c := range []struct {
		name  string
		p     Pipeline
		is    error
		words string // separated by "|"
	}{
		{"no In", Pipeline{Compute: nothing}, device.ErrArgument, "In"},
		{"no Compute", Pipeline{In: sized(1)}, device.ErrArgument, "Compute"},
		{"negative item", Pipeline{In: sized(1), ItemBytes: -3}, device.ErrArgument, "-3"},
		{"negative item of Out", Pipeline{In: sized(1), Out: sized(1), OutItemBytes: -4}, device.ErrArgument, "-4"},
		{"negative chunk", Pipeline{In: sized(1), ChunkBytes: -5}, device.ErrArgument, "-5"},
		{"negative buffers", Pipeline{In: sized(1), Buffers: -1}, device.ErrArgument, "-1|16"},
		{"many buffers", Pipeline{In: sized(1), Buffers: 17}, device.ErrArgument, "17|16"},
		{"negative size", Pipeline{In: sized(-7)}, device.ErrArgument, "-7"},
		{"part of an item", Pipeline{In: sized(10), ItemBytes: 4}, device.ErrArgument, "10|4"},
		{"chunk of part of an item", Pipeline{In: sized(12), ItemBytes: 4, ChunkBytes: 6}, device.ErrArgument, "6|4"},
		{"chunk below an item", Pipeline{In: sized(12), ItemBytes: 4, ChunkBytes: 3}, device.ErrArgument, "3|4"},
		{"Out too small", Pipeline{In: sized(12), Out: sized(11)}, device.ErrArgument, "11|12"},
		{"Out too large", Pipeline{In: sized(12), Out: sized(13)}, device.ErrArgument, "13|12"},
		{"Out with items of its own", Pipeline{In: sized(12), Out: sized(12), ItemBytes: 4, OutItemBytes: 5}, device.ErrArgument, "12|15|3|5"},
		{"Out for nothing", Pipeline{In: sized(0), Out: sized(1)}, device.ErrArgument, "1|0"},
		{"items of no Out", Pipeline{In: sized(12), OutItemBytes: 5}, device.ErrArgument, "5"},
		{"in place of nothing", Pipeline{In: sized(12), InPlace: true}, device.ErrArgument, "InPlace"},
		{"in place, other items", Pipeline{In: sized(12), Out: sized(24), OutItemBytes: 2, InPlace: true}, device.ErrArgument, "1|2"},
		{"Out overflows", Pipeline{In: sized(huge), Out: sized(1), OutItemBytes: 3}, device.ErrArgument, "9223372036854775807|3"},
		{"chunk overflows", Pipeline{In: sized(huge), ChunkBytes: huge}, device.ErrArgument, "9223372036854775807"},
		{"buffers overflow", Pipeline{In: sized(huge), ChunkBytes: huge / 2}, device.ErrArgument, "4611686018427387903"},
		{"overlap", Pipeline{In: Bytes(array[:200]), Out: Bytes(array[100:])}, device.ErrArgument, "200|overlap"},
		{"overlap in a byte", Pipeline{In: Bytes(array[99:199]), Out: Bytes(array[:100])}, device.ErrArgument, "100|overlap"},
		{"one start, other items", Pipeline{In: Bytes(array[:100]), Out: Bytes(array[:200]), OutItemBytes: 2}, device.ErrArgument, "100|200|overlap"},
		{"memory", Pipeline{In: sized(1 << 40), Out: sized(1 << 40)}, device.ErrOutOfMemory, "1048576 items|6 MiB in 3 buffers|2.86 MiB of 5.72 MiB are free"},
		{"memory for an item", Pipeline{In: sized(1 << 40), ItemBytes: 1 << 39}, device.ErrOutOfMemory, "512 GiB|2.86 MiB"},
		{"memory for a huge item", Pipeline{In: sized(huge), ItemBytes: huge, Out: sized(huge)}, device.ErrOutOfMemory, "8.00 EiB|more than 8 EiB"},
	} {
		if c.p.In != nil && c.name != "no Compute" {
			c.p.Compute = nothing
		}
		_, err := c.p.plan(planned{free: 3_000_000}, assumedSeconds(device.Link{}))
		if !errors.Is(err, c.is) {
			t.Errorf("%s: %v, want %q", c.name, err, c.is)
			continue
		}
		for word := range strings.SplitSeq(c.words, "|") {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %q does not tell %q", c.name, err, word)
			}
		}
	}
}

func TestPlanAllows(t *testing.T) {
	array := make([]byte, 300)
	for _, p := range []Pipeline{
		{In: Bytes(array), Out: Bytes(array)},
		{In: Bytes(array), Out: Bytes(array), InPlace: true},
		{In: Bytes(array[:100]), Out: Bytes(array[100:200])},
		{In: Bytes(array[:100]), Out: Bytes(array[100:]), OutItemBytes: 2},
		{In: Bytes(array[:0]), Out: Bytes(array[:0])},
		{In: Bytes(array), ChunkBytes: math.MaxInt64, Buffers: 16},
	} {
		p.Compute = nothing
		if _, err := p.plan(planned{free: 1 << 20}, assumedSeconds(device.Link{})); err != nil {
			t.Errorf("%+v: %v", p, err)
		}
	}
}
