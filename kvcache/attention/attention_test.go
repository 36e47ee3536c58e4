package attention

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/float16"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// rig is kernels on a device.
type rig struct {
	testing.TB
	dev    device.Device
	set    *Set
	stream device.Stream
}

func newRig(t testing.TB) *rig {
	dev := devicetest.Open(t)
	set := testkit.Must(Load(dev))(t)
	t.Cleanup(func() { testkit.OK(t, set.Close()) })
	return &rig{t, dev, set, testkit.Must(dev.NewStream())(t)}
}

// upload is values in device memory until the test ends.
func (r *rig) upload(values any) device.Ptr {
	b := testkit.Must(binary.Append(nil, binary.LittleEndian, values))(r)
	p := r.room(int64(len(b)))
	testkit.OK(r, r.stream.CopyH2D(p, b))
	testkit.OK(r, r.stream.Synchronize())
	return p
}

func (r *rig) room(n int64) device.Ptr {
	p := testkit.Must(r.dev.Alloc(max(16, n)))(r)
	r.Cleanup(func() { testkit.OK(r, r.dev.Free(p)) })
	return p
}

func (r *rig) download(p device.Ptr, n int) []uint16 {
	b, values := make([]byte, 2*n), make([]uint16, n)
	testkit.OK(r, r.stream.CopyD2H(b, p))
	testkit.OK(r, r.stream.Synchronize())
	testkit.Must(binary.Decode(b, binary.LittleEndian, values))(r)
	return values
}

// world is sequences in pages on the host, and queries.
type world struct {
	Layout
	Query
	tables, sequence, length []int32
	pages, query             []uint16
	narrow                   func(float32) uint16
	widen                    func(uint16) float32
}

// newWorld makes sequences with blocks in any order. Whatever belongs to no token is no number.
func newWorld(rng *rand.Rand, l Layout, heads, sequences, most int) *world {
	w := &world{Layout: l, narrow: float16.ToBF16, widen: float16.FromBF16}
	if l.Type == dtype.F16 {
		w.narrow, w.widen = float16.ToF16, float16.FromF16
	}
	w.TableWidth = (most + l.BlockTokens - 1) / l.BlockTokens
	w.Sequences, w.Query.Heads = sequences, heads
	w.Blocks = w.Sequences*w.TableWidth + 3
	side := rng.IntN(2) // of the keys
	gap := int64(16 * rng.IntN(3))
	w.Keys, w.Values = gap, gap+l.arrayBytes()
	if side == 1 {
		w.Keys, w.Values = w.Values, w.Keys
	}
	w.BlockBytes = gap + 2*l.arrayBytes() + int64(16*rng.IntN(3))
	w.pages = make([]uint16, int64(w.Blocks)*w.BlockBytes/2)
	for i := range w.pages {
		w.pages[i] = w.narrow(float32(math.NaN()))
	}
	order := rng.Perm(w.Blocks)
	for i := range w.Sequences * w.TableWidth {
		w.tables = append(w.tables, int32(order[i]))
	}
	return w
}

// row adds a row of a sequence.
func (w *world) row(rng *rand.Rand, sequence, length int) {
	w.sequence, w.length = append(w.sequence, int32(sequence)), append(w.length, int32(length))
	w.N++
	for range w.Query.Heads * w.Width {
		w.query = append(w.query, w.narrow(float32(rng.NormFloat64())*2))
	}
}

// at is where the keys and values of a token begin.
func (w *world) at(sequence, token int) (keys, values int64, ok bool) {
	b := w.tables[sequence*w.TableWidth+token/w.BlockTokens]
	if b < 0 || int(b) >= w.Blocks {
		return 0, 0, false
	}
	at := int64(b)*w.BlockBytes/2 + int64(token%w.BlockTokens*w.Layout.Heads*w.Width)
	return at + w.Keys/2, at + w.Values/2, true
}

// want is what row has to come to for a head of the queries, in 64 bits.
func (w *world) want(row, head int) []float64 {
	out, total := make([]float64, w.Width), 0.0
	kv := int64(head / (w.Query.Heads / w.Layout.Heads) * w.Width)
	q := w.query[(row*w.Query.Heads+head)*w.Width:]
	n := min(int(w.length[row]), w.TableWidth*w.BlockTokens)
	var scores []float64
	var values []int64
	for token := range n {
		k, v, ok := w.at(int(w.sequence[row]), token)
		if !ok || w.Window > 0 && token < n-w.Window && token >= w.Sinks {
			continue
		}
		s := 0.0
		for i := range w.Width {
			s += float64(w.widen(q[i])) * float64(w.widen(w.pages[k+kv+int64(i)]))
		}
		scale := float64(w.Scale)
		if scale == 0 {
			scale = 1 / math.Sqrt(float64(w.Width))
		}
		scores, values = append(scores, s*scale), append(values, v+kv)
	}
	most := math.Inf(-1)
	for _, s := range scores {
		most = max(most, s)
	}
	for i, s := range scores {
		weight := math.Exp(s - most)
		total += weight
		for e := range out {
			out[e] += weight * float64(w.widen(w.pages[values[i]+int64(e)]))
		}
	}
	for e := range out {
		if total != 0 {
			out[e] /= total
		}
	}
	return out
}

// upload puts everything but the pages where calls look for it.
func (w *world) upload(r *rig) {
	w.Sequence, w.Length, w.Tables = r.upload(w.sequence), r.upload(w.length), r.upload(w.tables)
	w.Query.Query, w.Out = r.upload(w.query), r.upload(make([]uint16, len(w.query)))
}

// Tokens that are stored one after another, and attention over them.
func TestAttend(t *testing.T) {
	testkit.OnlyComputes(t)
	for _, dt := range types {
		for _, width := range widths {
			for _, heads := range [][2]int{{1, 1}, {2, 4}, {2, 8}, {1, 7}, {2, 24}, {1, 20}} {
				for _, window := range [][2]int{{0, 0}, {100, 0}, {33, 20}} {
					t.Run(fmt.Sprintf("%v/%d/%v/%v", dt, width, heads, window), func(t *testing.T) {
						r := newRig(t)
						rng := rand.New(rand.NewPCG(uint64(width), uint64(heads[1])))
						blockTokens := 16 * (1 + rng.IntN(3))
						const most = 672 // whole blocks, so that all of sequence 0 is stored
						w := newWorld(rng, Layout{Type: dt, BlockTokens: blockTokens, Heads: heads[0], Width: width}, heads[1], 4, most)
						w.Window, w.Sinks = window[0], window[1]
						if width == 64 {
							w.Scale, w.MaxLength = 0.3, 300 // it decides nothing but parts
						}
						w.Pages = r.upload(w.pages)
						lengths := []int{most, 1 + rng.IntN(most), 1 + rng.IntN(40), 0}
						w.storeAll(r, rng, lengths)
						for s, n := range lengths {
							for i := max(0, n-1-rng.IntN(3)); i < n; i++ { // a decoded token, or a few of a prompt
								w.row(rng, s, i+1)
							}
						}
						w.row(rng, 3, 0)             // nothing to attend to
						w.row(rng, 0, math.MaxInt32) // a length that there is no table for
						w.tables[3] = -1             // blocks that are gone
						w.tables[2*w.TableWidth-1] = int32(w.Blocks)
						for _, tensor := range slices.Compact([]bool{false, r.set.tensor}) {
							for _, multiprocessors := range []int{0, 1000} {
								r.set.tensor, r.set.multiprocessors = tensor, multiprocessors
								w.check(r)
							}
						}
					})
				}
			}
		}
	}
}

// A key or a value that is no number makes no numbers of what attends to it, and of nothing else.
func TestNoNumbers(t *testing.T) {
	for _, dt := range types {
		for _, heads := range [][2]int{{2, 2}, {2, 16}} {
			t.Run(fmt.Sprintf("%v/%v", dt, heads), func(t *testing.T) {
				r := newRig(t)
				rng := rand.New(rand.NewPCG(3, uint64(heads[1])))
				w := newWorld(rng, Layout{Type: dt, BlockTokens: 16, Heads: heads[0], Width: 64}, heads[1], 2, 400)
				w.Pages = r.upload(w.pages)
				w.storeAll(r, rng, []int{400, 400})
				key, _, _ := w.at(0, 70)
				_, value, _ := w.at(1, 5)
				w.pages[key+3], w.pages[value+64+7] = w.narrow(float32(math.NaN())), w.narrow(float32(math.NaN()))
				w.Pages = r.upload(w.pages)
				for _, length := range []int{70, 71, 400} {
					w.row(rng, 0, length)
					w.row(rng, 1, length)
				}
				for _, tensor := range slices.Compact([]bool{false, r.set.tensor}) {
					for _, multiprocessors := range []int{0, 1000} {
						r.set.tensor, r.set.multiprocessors = tensor, multiprocessors
						w.check(r)
					}
				}
			})
		}
	}
}

// storeAll stores the tokens of sequences, each step some of each.
func (w *world) storeAll(r *rig, rng *rand.Rand, lengths []int) {
	n := w.Layout.Heads * w.Width
	rows, values := Rows{Tables: r.upload(w.tables), Sequences: w.Sequences, TableWidth: w.TableWidth}, [2][]uint16{}
	var sequence, length []int32
	for s, most := range lengths {
		for token := range most {
			sequence, length = append(sequence, int32(s)), append(length, int32(token+1))
			k, v, _ := w.at(s, token)
			for i, at := range []int64{k, v} {
				for e := range n {
					w.pages[at+int64(e)] = w.narrow(float32(rng.NormFloat64()))
				}
				values[i] = append(values[i], w.pages[at:at+int64(n)]...)
			}
		}
	}
	// These have no place.
	sequence, length = append(sequence, -1, int32(w.Sequences), 0, 0), append(length, 1, 1, 0, int32(w.TableWidth*w.BlockTokens+1))
	for i := range values {
		values[i] = append(values[i], make([]uint16, 4*n)...)
	}
	rows.N, rows.Sequence, rows.Length = len(sequence), r.upload(sequence), r.upload(length)
	testkit.OK(r, r.set.Store(r.stream, w.Layout, rows, r.upload(values[0]), r.upload(values[1])))
	for i, x := range r.download(w.Pages, len(w.pages)) {
		if x != w.pages[i] {
			r.Fatalf("element %d of the pages is %#x, want %#x", i, x, w.pages[i])
		}
	}
}

// check compares results with what is wanted.
func (w *world) check(r *rig) {
	r.Helper()
	w.upload(r)
	q := w.Query
	q.ScratchBytes = testkit.Must(r.set.ScratchBytes(w.Layout, q))(r)
	q.Scratch = r.room(q.ScratchBytes)
	testkit.OK(r, r.set.Attend(r.stream, w.Layout, q))
	got, ulp := r.download(w.Out, len(w.query)), 1.0/256
	if w.Type == dtype.F16 {
		ulp = 1.0 / 2048
	}
	for row := range w.N {
		for head := range w.Query.Heads {
			for e, want := range w.want(row, head) {
				x := float64(w.widen(got[(row*w.Query.Heads+head)*w.Width+e]))
				if math.Abs(x-want) > ulp*math.Abs(want)+1e-5 || math.IsNaN(x) != math.IsNaN(want) {
					r.Fatalf("row %d of sequence %d and length %d, head %d, element %d: %g, want %g", row, w.sequence[row], w.length[row], head, e, x, want)
				}
			}
		}
	}
}

func TestRefuses(t *testing.T) {
	r := newRig(t)
	l := Layout{Type: dtype.BF16, Pages: 1 << 20, Blocks: 4, BlockBytes: 8192, BlockTokens: 16, Values: 4096, Heads: 2, Width: 64}
	q := Query{Rows: Rows{N: 1, Sequence: 64, Length: 64, Tables: 64, Sequences: 1, TableWidth: 4}, Query: 64, Out: 128, Heads: 4}
	for _, c := range []struct {
		want   error
		change func(*Layout, *Query)
		say    string
	}{
		{device.ErrNotSupported, func(l *Layout, _ *Query) { l.Type = dtype.F32 }, "f32"},
		{device.ErrNotSupported, func(l *Layout, _ *Query) { l.Width = 80 }, "80"},
		{device.ErrArgument, func(l *Layout, _ *Query) { l.BlockTokens = 24 }, "24"},
		{device.ErrArgument, func(l *Layout, _ *Query) { l.Pages++ }, "multiples of 16"},
		{device.ErrArgument, func(l *Layout, _ *Query) { l.Values = 4080 }, "4080"},
		{device.ErrArgument, func(l *Layout, _ *Query) { l.Values = 4112 }, "4112"},
		{device.ErrArgument, func(l *Layout, _ *Query) { l.Blocks = math.MaxInt32; l.BlockBytes = 1 << 40 }, "blocks of"},
		{device.ErrArgument, func(_ *Layout, q *Query) { q.Heads = 3 }, "3 heads"},
		{device.ErrArgument, func(_ *Layout, q *Query) { q.Sinks = 4 }, "4 before it"},
		{device.ErrArgument, func(_ *Layout, q *Query) { q.Scale = float32(math.NaN()) }, "NaN"},
		{device.ErrArgument, func(_ *Layout, q *Query) { q.N = -1 }, "-1 rows"},
		{device.ErrArgument, func(_ *Layout, q *Query) { q.TableWidth = math.MaxInt32 }, "blocks of 16 tokens"},
		{device.ErrArgument, func(_ *Layout, q *Query) { q.TableWidth = 1 << 60 }, "blocks of 16 tokens"},
		{device.ErrArgument, func(_ *Layout, q *Query) { q.Sequences = 0 }, "0 sequences"},
		{device.ErrArgument, func(_ *Layout, q *Query) { q.N, q.Heads = 1<<24, 1<<10 }, "31 bits"},
		{device.ErrArgument, func(_ *Layout, q *Query) { q.Out = 0 }, "Out"},
		{device.ErrArgument, func(_ *Layout, q *Query) { q.Tables = 2 }, "Tables"},
		{device.ErrArgument, func(_ *Layout, q *Query) { q.Query = 72 }, "Query"},
	} {
		l, q := l, q
		c.change(&l, &q)
		if _, err := r.set.ScratchBytes(l, q); !errors.Is(err, c.want) && c.say != "Out" && c.say != "Tables" && c.say != "Query" {
			t.Errorf("%v, want %v of its scratch, too", err, c.want)
		}
		if err := r.set.Attend(r.stream, l, q); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.say) {
			t.Errorf("%v, want %v with %q", err, c.want, c.say)
		}
	}
	none := Query{Heads: 4}
	testkit.OK(t, r.set.Attend(r.stream, l, none))
	testkit.OK(t, r.set.Store(r.stream, l, none.Rows, 0, 0))
	testkit.OK(t, r.set.Close())
	if err := r.set.Attend(r.stream, l, q); !errors.Is(err, device.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}
