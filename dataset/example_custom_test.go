package dataset_test

import (
	"context"
	"fmt"
	"math"
	"path/filepath"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dtype"
)

// waves is a dataset of one's own: sines of different frequencies, which are
// computed when they are read.
type waves struct{ n, length int }

func (d waves) Len() int           { return d.n }
func (d waves) Spec() dataset.Spec { return dataset.Spec{Shape: []int{d.length}, DType: dtype.F32} }
func (d waves) Name(i int) string  { return fmt.Sprintf("wave[%d]", i) } // in messages
func (d waves) Label(i int) int32  { return int32(i % 2) }

func (d waves) NewReader() (dataset.Reader, error) { return waveReader{d}, nil }

// waveReader would have a decoder and buffers, if reading took any.
type waveReader struct{ waves }

func (r waveReader) Read(_ context.Context, v dataset.Visit, dst []byte) error {
	if err := dataset.CheckRead(r, v.Index, dst, 4*r.length); err != nil {
		return err
	}
	samples, err := dataset.Elements[float32](dst)
	if err != nil {
		return err
	}
	for i := range samples {
		samples[i] = float32(math.Sin(2 * math.Pi * float64((v.Index+1)*i) / float64(r.length)))
	}
	return nil
}

func (r waveReader) Close() error { return nil }

// A dataset of one's own needs five methods, and a reader two.
func ExampleDataset() {
	ds := waves{n: 100, length: 8}
	r, err := ds.NewReader() // one for each worker
	if err != nil {
		panic(err)
	}
	defer r.Close()
	sample := make([]float32, 8)
	memory, _ := dataset.Bytes(sample)
	if err := r.Read(context.Background(), dataset.Visit{Index: 1}, memory); err != nil {
		panic(err)
	}
	fmt.Printf("%d samples of %v; %s is %.1f\n", ds.Len(), ds.Spec(), ds.Name(1), sample)
	fmt.Println(r.Read(context.Background(), dataset.Visit{Index: 100}, memory))
	// Output:
	// 100 samples of 8 f32; wave[1] is [0.0 1.0 0.0 -1.0 -0.0 1.0 0.0 -1.0]
	// bad argument: sample 100 of 100
}

// A format of your own, in any module: names that end in .waves. Register it in
// an init function, and importing your package is enough. A command can make flags
// of the options, as pinion does.
func ExampleRegister() {
	dataset.Register(dataset.Format{
		Name:    "waves",
		Title:   "sines",
		Files:   "a name such as 100.waves",
		Samples: "a sine, {length} of f32",
		Options: []dataset.Option{{Name: "length", Kind: dataset.Int, Default: "8", Usage: "numbers of a sample"}},
		Sniff: func(at *dataset.Location) dataset.Confidence {
			if filepath.Ext(at.Path()) == ".waves" {
				return dataset.Likely
			}
			return dataset.NoMatch
		},
		Open: func(_ context.Context, at *dataset.Location, values dataset.Values) (dataset.Dataset, error) {
			d := waves{length: values.Int("length")}
			if d.length < 1 {
				return nil, values.Bad("length", fmt.Errorf("%d is not at least 1", d.length))
			}
			_, err := fmt.Sscanf(filepath.Base(at.Path()), "%d.waves", &d.n)
			return d, err
		},
	})

	ds, err := dataset.Open(context.Background(), "100.waves", dataset.Options{"length": 16})
	if err != nil {
		panic(err)
	}
	fmt.Println(ds.Len(), "samples of", ds.Spec())
	_, err = dataset.Open(context.Background(), "100.waves", dataset.Options{"height": 3})
	fmt.Println(err)
	// Output:
	// 100 samples of 16 f32
	// 100.waves: no format has an option "height"
}

// Bytes become numbers of another kind: the mean is taken off.
func ExampleNewMapOf() {
	photos, err := dataset.NewMemoryOf([]uint8{10, 20, 30, 100, 100, 130}, []int{3}, dataset.MemoryOptions{})
	if err != nil {
		panic(err)
	}
	centred, err := dataset.NewMapOf(photos, dataset.Spec{Shape: []int{3}}, func(_ context.Context, _ dataset.Visit, dst []float32, src []uint8) error {
		mean := float32(0)
		for _, v := range src {
			mean += float32(v) / float32(len(src))
		}
		for i, v := range src {
			dst[i] = float32(v) - mean
		}
		return nil
	})
	if err != nil {
		panic(err)
	}
	r, err := centred.NewReader()
	if err != nil {
		panic(err)
	}
	defer r.Close()
	sample := make([]float32, 3)
	memory, _ := dataset.Bytes(sample)
	for i := range centred.Len() {
		if err := r.Read(context.Background(), dataset.Visit{Index: i}, memory); err != nil {
			panic(err)
		}
		fmt.Println(sample)
	}
	// Output:
	// [-10 0 10]
	// [-10 -10 20]
}
