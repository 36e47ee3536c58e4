package stream_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io/fs"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/stream"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

var _ dataset.Files = (*stream.Files)(nil)

// pictures is a stream of n records with a member jpg; records in bad have none.
func pictures(n int, bad ...int) *stream.Stream {
	return stream.New("pictures", func(_ context.Context, epoch int, yield func(*stream.Record) error) error {
		for i := range n {
			r := &stream.Record{Key: fmt.Sprint(i), Name: fmt.Sprintf("pictures[p%d]", i), Label: int32(i % 10),
				Members: []stream.Member{{Extension: "jpg", Content: fmt.Appendf(nil, "%d.%d", epoch, i)}}}
			for _, b := range bad {
				if b == i {
					r.Members[0].Extension = "txt"
				}
			}
			if err := yield(r); err != nil {
				return err
			}
		}
		return nil
	})
}

// TestFilesOfWorkers reads as a loader does: several workers take the numbers in
// turn, and get their files whoever is first.
func TestFilesOfWorkers(t *testing.T) {
	testkit.NoLeaks(t)
	const n, workers = 5000, 7
	for _, first := range []int{0, 1777} { // a loader that resumes
		f := stream.NewFiles(pictures(n))
		var next, right atomic.Int64
		next.Store(int64(first))
		var all sync.WaitGroup
		for range workers {
			all.Go(func() {
				r := testkit.Must(f.NewFileReader())(t)
				for {
					i := int(next.Add(1)) - 1
					content, err := r.ReadFile(t.Context(), i, nil)
					if errors.Is(err, dataset.ErrEnd) {
						if i < n {
							t.Errorf("file %d: %v", i, err)
						}
						return
					}
					if err != nil || string(content) != fmt.Sprintf("0.%d", i) {
						t.Errorf("file %d: %q, %v", i, content, err)
						return
					}
					if f.Label(i) != int32(i%10) || f.Name(i) != fmt.Sprintf("pictures[p%d]", i) {
						t.Errorf("file %d: %d, %s", i, f.Label(i), f.Name(i))
					}
					right.Add(1)
				}
			})
		}
		all.Wait()
		if int(right.Load()) != n-first {
			t.Errorf("from %d on: %d files", first, right.Load())
		}
		testkit.OK(t, f.Close())
	}
}

func TestFilesAgain(t *testing.T) {
	testkit.NoLeaks(t)
	f := stream.NewFiles(pictures(100))
	defer f.Close()
	r := testkit.Must(f.NewFileReader())(t)
	if f.Len() != dataset.UnknownLen || f.Label(3) != -1 || f.Name(3) != "pictures[3]" {
		t.Errorf("%d, %d, %s", f.Len(), f.Label(3), f.Name(3))
	}
	for epoch := range 3 {
		for i := range 100 {
			content, err := r.ReadFile(t.Context(), i, nil)
			if err != nil || string(content) != fmt.Sprintf("%d.%d", epoch, i) {
				t.Fatalf("epoch %d, file %d: %q, %v", epoch, i, content, err)
			}
		}
		for range 2 {
			_, err := r.ReadFile(t.Context(), 100, nil)
			testkit.WantError(t, "behind the end", err, dataset.ErrEnd, "it has 100 records")
		}
	}
}

func TestFilesErrors(t *testing.T) {
	testkit.NoLeaks(t)
	f := stream.NewFiles(pictures(10, 3))
	r := testkit.Must(f.NewFileReader())(t)
	read := func(i int) error {
		_, err := r.ReadFile(t.Context(), i, nil)
		return err
	}
	testkit.OK(t, read(0))
	testkit.WantError(t, "a record without a picture", read(3), dataset.ErrFormat, "pictures[p3]", "no member jpg, jpeg, png, webp")
	testkit.OK(t, read(4))
	testkit.WantError(t, "negative", read(-1), dataset.ErrArgument)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	testkit.OK(t, f.Close())
	testkit.WantError(t, "closed", read(5), fs.ErrClosed)

	damaged := stream.NewFiles(of(packed(t, "1.jpg", "1", "2.jpg", "2")[:1537], stream.Options{}))
	defer damaged.Close()
	r = testkit.Must(damaged.NewFileReader())(t)
	testkit.OK(t, read(0))
	testkit.WantError(t, "cut", read(1), dataset.ErrDamaged)
	testkit.WantError(t, "behind what is damaged", read(2), dataset.ErrEnd)

	stuck := stream.NewFiles(stream.New("stuck", func(ctx context.Context, _ int, _ func(*stream.Record) error) error {
		<-ctx.Done()
		return ctx.Err()
	}))
	defer stuck.Close()
	r = testkit.Must(stuck.NewFileReader())(t)
	_, err := r.ReadFile(ctx, 0, nil)
	testkit.WantError(t, "stuck", err, context.Canceled)
}

// TestOpenDataset: a compressed tar is told by what is in it, whatever its name.
func TestOpenDataset(t *testing.T) {
	testkit.NoLeaks(t)
	var photo bytes.Buffer
	testkit.OK(t, png.Encode(&photo, image.NewGray(image.Rect(0, 0, 9, 7))))
	file := packed(t, "a.png", photo.String(), "a.cls", "3", "b.png", photo.String(), "b.cls", "4")
	for name, data := range map[string][]byte{"x.tar.gz": gzipped(t, file), "y": zstandard(t, file)} {
		path := testkit.WriteFile(t, data, t.TempDir(), name)
		d := testkit.Must(dataset.Open(t.Context(), path, dataset.Options{"size": 4, "shuffle-buffer": 1}))(t)
		if d.Len() != dataset.UnknownLen || d.Spec().String() != "4x4x3 u8" {
			t.Errorf("%s: %d of %v", name, d.Len(), d.Spec())
		}
		r := testkit.Must(d.NewReader())(t)
		for i := range 2 {
			testkit.OK(t, r.Read(t.Context(), dataset.Visit{Index: i}, make([]byte, 48)))
			if d.Label(i) != int32(3+i) {
				t.Errorf("%s: label %d of sample %d", name, d.Label(i), i)
			}
		}
		testkit.WantError(t, name, r.Read(t.Context(), dataset.Visit{Index: 2}, make([]byte, 48)), dataset.ErrEnd)
		testkit.OK(t, r.Close())
		testkit.OK(t, dataset.Close(d))
	}
	path := testkit.WriteFile(t, gzipped(t, []byte("no tar at all")), t.TempDir(), "x.tar.gz")
	_, err := dataset.Open(t.Context(), path, nil)
	testkit.WantError(t, "no tar", err, dataset.ErrFormat)
}
