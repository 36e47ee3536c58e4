package stream_test

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"slices"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/host"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/loader"
)

// TestLoaderResumes: a loader that goes on where another one stopped gets the
// batches of the stream that would have come.
func TestLoaderResumes(t *testing.T) {
	const n, batch = 500, 8
	var photo bytes.Buffer
	testkit.OK(t, png.Encode(&photo, image.NewGray(image.Rect(0, 0, 9, 7))))
	var members []string
	for i := range n {
		members = append(members, fmt.Sprintf("%04d.png", i), photo.String(), fmt.Sprintf("%04d.cls", i), fmt.Sprint(i))
	}
	path := testkit.WriteFile(t, zstandard(t, packed(t, members...)), t.TempDir(), "x.tar.zst")
	dev := testkit.Must(device.Open("host"))(t)
	defer dev.Close()
	seed := uint64(5)
	read := func(resume *loader.State, batches int) (labels []int32, state loader.State) {
		d := testkit.Must(dataset.Open(t.Context(), path, dataset.Options{"size": 4, "shuffle-buffer": 50}))(t)
		defer func() { testkit.OK(t, dataset.Close(d)) }()
		l := testkit.Must(loader.New(dev, d, loader.Options{Batch: batch, Workers: 4, Resume: resume, Seed: seed}))(t)
		defer func() { testkit.OK(t, l.Close()) }()
		for b, err := range l.All(t.Context()) {
			testkit.OK(t, err)
			labels = append(labels, b.Labels...)
			testkit.OK(t, b.Release())
			if batches--; batches == 0 {
				break
			}
		}
		return labels, l.State()
	}
	whole, _ := read(nil, -1)
	sorted := slices.Clone(whole)
	slices.Sort(sorted)
	if len(whole) != n || slices.IsSorted(whole) || sorted[0] != 0 || sorted[n-1] != n-1 || len(slices.Compact(sorted)) != n {
		t.Fatalf("%d labels: %v", len(whole), whole)
	}
	seed = 7
	if other, _ := read(nil, -1); len(other) != n || slices.Equal(other, whole) {
		t.Error("another seed gives the same order, or other samples")
	}
	seed = 5
	for _, batches := range []int{1, 20, 61} {
		first, state := read(nil, batches)
		rest, _ := read(&state, -1)
		if got := append(first, rest...); !slices.Equal(got, whole) {
			t.Errorf("%d batches, then resumed: %v, want %v", batches, got, whole)
		}
	}
}
