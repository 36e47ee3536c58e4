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

// numbered is a compressed tar of n pictures, labelled with their numbers.
func numbered(t *testing.T, n int) (path string) {
	var photo bytes.Buffer
	testkit.OK(t, png.Encode(&photo, image.NewGray(image.Rect(0, 0, 9, 7))))
	var members []string
	for i := range n {
		members = append(members, fmt.Sprintf("%04d.png", i), photo.String(), fmt.Sprintf("%04d.cls", i), fmt.Sprint(i))
	}
	return testkit.WriteFile(t, zstandard(t, packed(t, members...)), t.TempDir(), "x.tar.zst")
}

// TestLoaderEpochs: a file is read again for each epoch, in another order if it is
// shuffled, and a state goes on in the midst of any.
func TestLoaderEpochs(t *testing.T) {
	const n, epochs = 300, 3
	path := numbered(t, n)
	dev := testkit.Must(device.Open("host"))(t)
	defer dev.Close()
	read := func(resume *loader.State, batches int) (labels [epochs][]int32, state loader.State) {
		d := testkit.Must(dataset.Open(t.Context(), path, dataset.Options{"size": 4, "shuffle-buffer": 20}))(t)
		defer func() { testkit.OK(t, dataset.Close(d)) }()
		l := testkit.Must(loader.New(dev, d, loader.Options{Batch: 7, Workers: 4, Resume: resume, Epochs: epochs}))(t)
		defer func() { testkit.OK(t, l.Close()) }()
		for b, err := range l.All(t.Context()) {
			testkit.OK(t, err)
			labels[b.Epoch] = append(labels[b.Epoch], b.Labels...)
			testkit.OK(t, b.Release())
			if batches--; batches == 0 {
				break
			}
		}
		return labels, l.State()
	}
	whole, _ := read(nil, -1)
	for epoch, labels := range whole {
		sorted := slices.Sorted(slices.Values(labels))
		if len(labels) != n || sorted[0] != 0 || sorted[n-1] != n-1 || len(slices.Compact(sorted)) != n {
			t.Errorf("epoch %d: %d labels: %v", epoch, len(labels), labels)
		}
	}
	if slices.Equal(whole[0], whole[1]) || slices.Equal(whole[1], whole[2]) {
		t.Error("two epochs are in the same order")
	}
	for _, batches := range []int{1, 43, 44, 100} {
		first, state := read(nil, batches)
		rest, _ := read(&state, -1)
		for epoch := range whole {
			if got := append(first[epoch], rest[epoch]...); !slices.Equal(got, whole[epoch]) {
				t.Errorf("%d batches, then resumed, epoch %d: %v, want %v", batches, epoch, got, whole[epoch])
			}
		}
	}
}

// TestLoaderResumes: a loader that goes on where another one stopped gets the
// batches of the stream that would have come.
func TestLoaderResumes(t *testing.T) {
	const n, batch = 500, 8
	path := numbered(t, n)
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
