package stream

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/photos"
)

func init() {
	dataset.Register(dataset.Format{
		Name:    "stream",
		Title:   "tar streams",
		Files:   ".tar.gz, .tgz, .tar.zst, or - for standard input, which may be a plain tar",
		Samples: "a picture of each sample, as of a folder of photos; in order",
		Options: append(photos.FormatOptions(),
			dataset.LabelOption(),
			dataset.Option{Name: "shuffle-buffer", Kind: dataset.Int, Usage: "shuffle a stream within a window of `N` samples, which are held in memory"},
		),
		Sniff: func(at *dataset.Location) dataset.Confidence {
			if at.Path() == StandardInput || compressedTar(at.Head()) {
				return dataset.Certain
			}
			if name, _ := unread(at.Head()); name != "" {
				return dataset.Possible // to say what to do
			}
			return dataset.NoMatch
		},
		Open: func(_ context.Context, at *dataset.Location, values dataset.Values) (dataset.Dataset, error) {
			if name, tool := unread(at.Head()); name != "" {
				return nil, fmt.Errorf("%s: %w: compressed with %s, not with gzip or Zstandard; pipe it in: %s -dc %[1]s | …", at.Path(), dataset.ErrFormat, name, tool)
			}
			pictures, err := photos.OptionsOf(values)
			if err != nil {
				return nil, err
			}
			s, err := Open(at.Path(), Options{Label: values.Text("label")})
			if err != nil {
				return nil, err
			}
			var seed atomic.Uint64
			if n := values.Int("shuffle-buffer"); values.Given("shuffle-buffer") {
				if n < 1 {
					return nil, values.Bad("shuffle-buffer", fmt.Errorf("%d is below 1", n))
				}
				s = s.shuffle(n, seed.Load)
			}
			files := NewFiles(s)
			d, err := photos.New(files, pictures)
			if err != nil {
				return nil, err
			}
			return &seeded{dataset.Wrapper{Dataset: dataset.Owning(d, files)}, &seed}, nil
		},
	})
}

// seeded is a dataset whose order is drawn from a seed.
type seeded struct {
	dataset.Wrapper
	seed *atomic.Uint64
}

// SetSeed implements [dataset.Seeder].
func (d *seeded) SetSeed(seed uint64) { d.seed.Store(seed) }

// compressedTar reports whether a file that begins like that is a tar which is
// compressed.
func compressedTar(head []byte) bool {
	if !compressed(head) {
		return false
	}
	r, err := decompressed(bufio.NewReader(bytes.NewReader(head)))
	if err != nil {
		return false
	}
	defer r.Close()
	const at, magic = 257, "ustar"
	block := make([]byte, tarBlock)
	_, err = io.ReadFull(r, block)
	return err == nil && string(block[at:at+len(magic)]) == magic
}
