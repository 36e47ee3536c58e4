// Command outofcore measures products of matrices of which a quarter fits into
// the device memory that is given: beside the time in core, where all of them
// lie in device memory, and the floor, which no blocking can beat.
//
//	go run ./bench/outofcore --device cuda:0 > outofcore.json
//	go run ./bench/outofcore --device host --quick
//
// A sample of C is compared with products in float64 before anything is timed.
// The rows of one shape are timed in turn, one repeat of each after the other.
// Plans are made by the model of the link in the user's cache, which `pinion
// bench link --calibrate` measures.
// Read it beside peers/torch_outofcore.py, which does the same with PyTorch.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"github.com/pinion-gpu/pinion/bench/internal/harness"
	"github.com/pinion-gpu/pinion/blas"
	"github.com/pinion-gpu/pinion/blas/auto"
	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/all"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/measure"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/outofcore"
	"github.com/pinion-gpu/pinion/pinned"
	"github.com/pinion-gpu/pinion/transfer"
)

type options struct {
	harness.Options
	repeats int
}

func main() {
	var o options
	o.Flags("f32, tf32, bf16, shares, turned, pageable, arrays, stored")
	flag.IntVar(&o.repeats, "repeats", 5, "repeats of each row")
	flag.Parse()
	harness.Main("outofcore", func(ctx context.Context, w io.Writer) error {
		return harness.Run(o.Device, w, func(dev device.Device) (any, error) { return measureAll(ctx, dev, o) })
	})
}

// row is a figure, and what it is to be compared with.
type row struct {
	measure.Row
	M              int64   `json:"m,omitempty"`
	N              int64   `json:"n,omitempty"`
	K              int64   `json:"k,omitempty"`
	DeviceBytes    int64   `json:"device_bytes"` // for tiles and workspace
	H2DBytes       int64   `json:"h2d_bytes,omitempty"`
	D2HBytes       int64   `json:"d2h_bytes,omitempty"`
	FloorH2DBytes  int64   `json:"floor_h2d_bytes,omitempty"`
	FloorD2HBytes  int64   `json:"floor_d2h_bytes,omitempty"`
	FloorSeconds   float64 `json:"floor_seconds,omitempty"` // the larger of in core and link
	LinkSeconds    float64 `json:"link_floor_seconds,omitempty"`
	PlannedSeconds float64 `json:"planned_seconds,omitempty"`
	Tile           []int64 `json:"tile,omitempty"`              // rows and columns of C, and depth
	FloorFraction  float64 `json:"floor_fraction,omitempty"`    // of the wall time
	AtLeast        float64 `json:"at_least_fraction,omitempty"` // of the floor, to reach on an H200
	Went           *went   `json:"went,omitempty"`              // where the time went
	Moved          []moved `json:"moved,omitempty"`             // of A, B and C
	Library        string  `json:"library,omitempty"`
}

// moved is what crossed the link of a matrix in the last repeat, beside what was
// planned.
type moved struct {
	Matrix           string  `json:"matrix"`
	RowBytes         int64   `json:"row_bytes"` // of rows with gaps between them; 0: no gaps
	H2DBytes         int64   `json:"h2d_bytes"`
	D2HBytes         int64   `json:"d2h_bytes"`
	H2DGBPerS        float64 `json:"h2d_gb_per_s"`
	D2HGBPerS        float64 `json:"d2h_gb_per_s"`
	PlannedH2DGBPerS float64 `json:"planned_h2d_gb_per_s"`
	PlannedD2HGBPerS float64 `json:"planned_d2h_gb_per_s"`
}

// went is where the time of the last repeat went, beside what was planned. The
// first six add up to it.
type went struct {
	SetupSeconds      float64 `json:"setup_seconds"`
	FirstTilesSeconds float64 `json:"first_tiles_seconds"` // until a product could begin
	ProductsSeconds   float64 `json:"products_seconds"`
	WaitingSeconds    float64 `json:"waiting_seconds"` // of products, for tiles
	LastTilesSeconds  float64 `json:"last_tiles_seconds"`
	ClosingSeconds    float64 `json:"closing_seconds"`

	PlannedProductsSeconds float64 `json:"planned_products_seconds"`
	H2DGBPerS              float64 `json:"h2d_gb_per_s"` // while it copied
	D2HGBPerS              float64 `json:"d2h_gb_per_s"`
	PlannedH2DGBPerS       float64 `json:"planned_h2d_gb_per_s"`
	PlannedD2HGBPerS       float64 `json:"planned_d2h_gb_per_s"`

	RowFractions [3]outofcore.RowShare `json:"row_fractions"` // of the link's rate, by length of rows, of A, B and C
	FlopRates    []float64             `json:"flop_rates"`    // measured, by side
	AddSeconds   float64               `json:"add_seconds"`   // a byte of C
}

type bench struct {
	harness.Document[row]
	o options
}

func (b *bench) engine(m *harness.Memory) (*transfer.Engine, error) {
	e, err := transfer.New(m.Dev, transfer.Options{})
	if err == nil {
		m.Later(e.Close)
	}
	return e, err
}

type document = harness.Document[row]

func measureAll(ctx context.Context, dev device.Device, o options) (*document, error) {
	if o.Quick {
		o.repeats = 1
	}
	b := &bench{Document: harness.NewDocument[row](dev, "outofcore", o.repeats), o: o}
	n32, n16, half := int64(32<<10), int64(64<<10), int64(32<<10)
	shares := []int64{1, 2, 4, 8, 16, 32}
	if o.Quick {
		n32, n16, half, shares = 256, 384, 512, shares[:4]
	}
	product := func(c shape) func(context.Context, *harness.Memory) error {
		return func(ctx context.Context, m *harness.Memory) error { return b.shape(ctx, m, c) }
	}
	quarter, few := []int64{4}, []int64{4, 16}
	bf16 := shape{n: half, t: dtype.BF16, pinned: true}
	named := func(name string, shares []int64, change func(*shape)) func(context.Context, *harness.Memory) error {
		c := bf16
		c.name, c.shares = name, shares
		change(&c)
		return product(c)
	}
	err := b.Measure(ctx, dev, o.Only, []harness.Group{
		{Name: "f32", Measure: product(shape{name: "f32", n: n32, t: dtype.F32, pinned: true, shares: quarter, bound: true})},
		{Name: "tf32", Measure: product(shape{name: "tf32", n: n32, t: dtype.F32, tf32: true, pinned: true, shares: quarter})},
		{Name: "bf16", Measure: product(shape{name: "bf16", n: n16, t: dtype.BF16, pinned: true, shares: quarter, bound: true})},
		{Name: "shares", Measure: named("bf16, by memory", shares, func(*shape) {})},
		{Name: "turned", Measure: func(ctx context.Context, m *harness.Memory) error {
			return errors.Join(
				named("bf16, A B'", few, func(c *shape) { c.transB = true })(ctx, m),
				named("bf16, A' B", few, func(c *shape) { c.transA = true })(ctx, m))
		}},
		{Name: "pageable", Measure: named("bf16, pageable", quarter, func(c *shape) { c.pinned = false })},
		{Name: "arrays", Measure: b.arrays},
		{Name: "stored", Measure: b.stored},
	})
	return &b.Document, err
}

// shape is a square product.
type shape struct {
	name           string
	n              int64
	t              dtype.DType
	transA, transB bool
	tf32           bool
	pinned         bool
	shares         []int64 // of the data that fits: 1 / share
	bound          bool    // a quarter has to reach the target
}

// sample is a row that is being measured.
type sample struct {
	measure.Sample
	row row
}

// Result implements [harness.Measurable].
func (s *sample) Result() row {
	r := s.row
	r.Row = s.Row
	return r
}

func (b *bench) shape(ctx context.Context, m *harness.Memory, c shape) (err error) {
	bytes := c.n * c.n * int64(c.t.Size())
	var host [3][]byte
	for i := range host {
		if host[i], err = hostMemory(ctx, m, bytes, c.pinned); err != nil {
			return err
		}
		fill(host[i], c.t, uint64(i+1))
	}
	engine, err := b.engine(m)
	if err != nil {
		return err
	}
	library, err := auto.Open(m.Dev)
	if err != nil {
		return err
	}
	m.Later(library.Close)
	matrix := func(b []byte) outofcore.Matrix {
		return outofcore.Matrix{Bytes: b, Type: c.t, Rows: c.n, Columns: c.n}
	}
	product := outofcore.Product{A: matrix(host[0]), B: matrix(host[1]), C: matrix(host[2]), TransA: c.transA, TransB: c.transB, TF32: c.tf32}

	core, err := newInCore(ctx, m, engine, library, c, host)
	if err != nil {
		return err
	}
	square := row{M: c.n, N: c.n, K: c.n, Library: library.Library(), DeviceBytes: 3*bytes + library.WorkspaceBytes()}
	samples := []*sample{
		{row: square, Sample: measure.Sample{Row: measure.Row{Name: c.name, By: "in core", Unit: "s"}, Run: core.run}},
		{row: square, Sample: measure.Sample{Row: measure.Row{Name: c.name, By: "copy in, multiply, copy out", Unit: "s"}, Run: core.withCopies}},
	}
	reports := map[string]*outofcore.Report{}
	for _, share := range c.shares {
		budget := 3*bytes/share + library.WorkspaceBytes()
		runner, err := outofcore.New(engine, outofcore.Options{DeviceBytes: budget})
		if err != nil {
			return err
		}
		m.Later(runner.Close)
		by, report := fmt.Sprintf("out of core, 1/%d", share), new(outofcore.Report)
		reports[by] = report
		s := &sample{row: square}
		s.row.DeviceBytes = budget
		if c.bound && share == 4 {
			s.row.AtLeast = target
		}
		s.Sample = measure.Sample{Row: measure.Row{Name: c.name, By: by, Unit: "s"},
			Run: func() (float64, error) {
				var err error
				*report, err = runner.MatMul(ctx, product)
				return report.Wall.Seconds(), err
			},
			Check: func() error {
				clear(host[2])
				if _, err := runner.MatMul(ctx, product); err != nil {
					return err
				}
				return compare(host, c)
			}}
		samples = append(samples, s)
	}
	before := len(b.Rows)
	if err := harness.Add(ctx, &b.Document, samples); err != nil {
		return err
	}
	// What the floor is made of is known now.
	rows := b.Rows[before:]
	for i := range rows {
		if report, ok := reports[rows[i].By]; ok {
			rows[i].explain(report, rows[0].Value)
		}
	}
	return nil
}

// target is the share of the floor that a product of which a quarter fits has
// to reach, on an H200.
const target = 0.92

// explain adds what the report of the last repeat says, and says it to people.
func (r *row) explain(report *outofcore.Report, inCore float64) {
	p, at := report.Plan, report.Times()
	r.H2DBytes, r.D2HBytes, r.PlannedSeconds = p.H2DBytes, p.D2HBytes, p.Seconds
	r.Tile = []int64{p.TileM, p.TileN, p.TileK}
	r.FloorH2DBytes, r.FloorD2HBytes, r.LinkSeconds = report.Floor.H2DBytes, report.Floor.D2HBytes, report.Floor.LinkSeconds
	r.FloorSeconds = max(inCore, r.LinkSeconds)
	r.FloorFraction = r.FloorSeconds / r.Value
	rate := func(bytes int64, seconds float64) float64 { return float64(bytes) / max(seconds, 1e-9) / 1e9 }
	r.Went = &went{
		SetupSeconds: at.Setup.Seconds(), FirstTilesSeconds: at.FirstTiles.Seconds(), ProductsSeconds: at.Products.Seconds(),
		WaitingSeconds: at.Waiting.Seconds(), LastTilesSeconds: at.LastTiles.Seconds(), ClosingSeconds: at.Closing.Seconds(),
		PlannedProductsSeconds: p.Lanes.Products.Busy,
		H2DGBPerS:              rate(p.H2DBytes, report.Lanes.In.Busy), D2HGBPerS: rate(p.D2HBytes, report.Lanes.Out.Busy),
		PlannedH2DGBPerS: rate(p.H2DBytes, p.Lanes.In.Busy), PlannedD2HGBPerS: rate(p.D2HBytes, p.Lanes.Out.Busy),
		RowFractions: p.Problem.RowShare, FlopRates: p.Problem.Speed.FlopRate[:], AddSeconds: p.Problem.Speed.AddSeconds,
	}
	r.Moved = nil
	for of, m := range report.Moved {
		planned := p.Moved[of]
		r.Moved = append(r.Moved, moved{Matrix: string("ABC"[of]), RowBytes: m.RowBytes, H2DBytes: m.H2DBytes, D2HBytes: m.D2HBytes,
			H2DGBPerS: rate(m.H2DBytes, m.H2DSeconds), D2HGBPerS: rate(m.D2HBytes, m.D2HSeconds),
			PlannedH2DGBPerS: rate(planned.H2DBytes, planned.H2DSeconds), PlannedD2HGBPerS: rate(planned.D2HBytes, planned.D2HSeconds)})
	}
	fmt.Fprintf(os.Stderr, "%s, %s: %.1f %% of the floor (in core %.4f s, link alone %.4f)\n%v", r.Name, r.By, 100*r.FloorFraction, inCore, r.LinkSeconds, report)
}

// hostMemory takes n bytes.
func hostMemory(ctx context.Context, m *harness.Memory, n int64, pin bool) ([]byte, error) {
	if !pin {
		return make([]byte, n), nil
	}
	pool, err := pinned.NewPool(m.Dev, pinned.Options{Budget: pagemem.RoundUp(n), SegmentBytes: pagemem.RoundUp(n), Flags: device.PinMapped})
	if err != nil {
		return nil, err
	}
	m.Later(pool.Close)
	b, err := pool.Alloc(ctx, n)
	if err != nil {
		return nil, err
	}
	m.Later(func() error { return b.Free() })
	return b.Bytes(), nil
}

// fill makes numbers between 1 and 2 with random signs.
func fill(b []byte, t dtype.DType, seed uint64) {
	keep, set := uint64(0x807fffff807fffff), uint64(0x3f8000003f800000)
	if t == dtype.BF16 {
		keep, set = 0x807f807f807f807f, 0x3f803f803f803f80
	}
	words := unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/8)
	var all sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		all.Go(func() {
			part := words[len(words)*w/workers : len(words)*(w+1)/workers]
			x := seed*0x9e3779b97f4a7c15 + uint64(w+1)*0xbf58476d1ce4e5b9
			for i := range part {
				x ^= x << 13
				x ^= x >> 7
				x ^= x << 17
				part[i] = x&keep | set
			}
		})
	}
	all.Wait()
}

func at(b []byte, t dtype.DType, i int64) float64 {
	if t == dtype.BF16 {
		bits := uint32(b[2*i]) | uint32(b[2*i+1])<<8
		return float64(math.Float32frombits(bits << 16))
	}
	return float64(*(*float32)(unsafe.Pointer(&b[4*i])))
}

// compare compares elements of C, some of each part, with dot products in
// float64.
func compare(host [3][]byte, c shape) error {
	const parts = 16
	random := rand.New(rand.NewPCG(1, 2))
	unit := 1.0 / (1 << 24)
	if c.tf32 {
		unit = 1.0 / (1 << 11)
	}
	for part := range int64(parts * parts) {
		i := (part/parts*c.n + random.Int64N(c.n)) / parts
		j := (part%parts*c.n + random.Int64N(c.n)) / parts
		var sum, magnitude float64
		for k := range c.n {
			a, b := i*c.n+k, k*c.n+j
			if c.transA {
				a = k*c.n + i
			}
			if c.transB {
				b = j*c.n + k
			}
			v := at(host[0], c.t, a) * at(host[1], c.t, b)
			sum += v
			if v < 0 {
				v = -v
			}
			magnitude += v
		}
		got := at(host[2], c.t, i*c.n+j)
		// Rounding errors of sums of random signs grow with the root of k; the
		// worst case would accept anything here.
		bound := 64 * unit * magnitude
		if c.t == dtype.BF16 {
			bound += max(sum, -sum) / 128
		}
		if d := got - sum; !(d <= bound && -d <= bound) {
			return fmt.Errorf("row %d, column %d is %v, want %v within %v", i, j, got, sum, bound)
		}
	}
	return nil
}

// inCore is the product with all matrices in device memory.
type inCore struct {
	ctx     context.Context
	engine  *transfer.Engine
	library blas.BLAS
	stream  device.Stream
	gemm    blas.Gemm
	host    [3][]byte
}

func newInCore(ctx context.Context, m *harness.Memory, engine *transfer.Engine, library blas.BLAS, c shape, host [3][]byte) (*inCore, error) {
	x := &inCore{ctx: ctx, engine: engine, library: library, stream: m.Stream, host: host}
	x.gemm = blas.Gemm{M: c.n, N: c.n, K: c.n, TransA: c.transA, TransB: c.transB, Alpha: 1, Type: c.t, TF32: c.tf32, WorkspaceBytes: library.WorkspaceBytes()}
	for i, to := range []*device.Ptr{&x.gemm.A.Ptr, &x.gemm.B.Ptr, &x.gemm.C.Ptr} {
		p, err := m.Alloc(int64(len(host[i])))
		if err != nil {
			return nil, err
		}
		*to = p
	}
	if n := library.WorkspaceBytes(); n > 0 {
		p, err := m.Alloc(n)
		if err != nil {
			return nil, err
		}
		x.gemm.Workspace = p
	}
	return x, x.copyIn()
}

func (x *inCore) copyIn() error {
	return errors.Join(x.engine.H2D(x.ctx, x.gemm.A.Ptr, x.host[0]), x.engine.H2D(x.ctx, x.gemm.B.Ptr, x.host[1]))
}

func (x *inCore) run() (float64, error) {
	began := time.Now()
	err := errors.Join(x.library.Gemm(x.stream, x.gemm), x.stream.Synchronize())
	return time.Since(began).Seconds(), err
}

func (x *inCore) withCopies() (float64, error) {
	began := time.Now()
	if err := x.copyIn(); err != nil {
		return 0, err
	}
	if _, err := x.run(); err != nil {
		return 0, err
	}
	err := x.engine.D2H(x.ctx, x.host[2], x.gemm.C.Ptr)
	return time.Since(began).Seconds(), err
}
