package tar

import (
	"bytes"
	"io/fs"
	"slices"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/datatest"
	"github.com/pinion-gpu/pinion/dataset/photos"
	"github.com/pinion-gpu/pinion/dataset/shard"
	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// Two members of the samples of shards go together, also where samples lack one
// or the other.
func TestMatchShards(t *testing.T) {
	dir := datatest.Folder(t, map[string][]byte{
		"a.tar": tarOf(t, "1.jpg", string(datatest.PNG(t, 1)), "1.seg.png", string(datatest.Mask(t, 11)), "2.jpg", string(datatest.PNG(t, 2)), "3.seg.png", string(datatest.Mask(t, 13))),
		"b.tar": tarOf(t, "1.seg.png", string(datatest.Mask(t, 21)), "1.jpg", string(datatest.PNG(t, 1))),
	})
	set, err := shard.Open(t.Context(), dir, noCache.Shards)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	pics, err := NewFiles(set, "jpg")
	if err != nil {
		t.Fatal(err)
	}
	masks, err := NewFiles(set, "seg.png")
	if err != nil {
		t.Fatal(err)
	}
	if pics.Len() != masks.Len() {
		t.Fatalf("%d pics, %d masks: their lengths were to be equal by chance", pics.Len(), masks.Len())
	}
	_, err = dataset.Match(pics, masks, nil)
	testkit.WantError(t, "no mask", err, fs.ErrNotExist, "a.tar/2.jpg: file does not exist: it has no partner")
	_, err = dataset.Match(masks, pics, nil)
	testkit.WantError(t, "no photo", err, fs.ErrNotExist, "a.tar/3.seg.png")

	// Shards whose samples are whole, opened once for each member.
	opts := noCache
	opts.Extensions = []string{"jpg"}
	dir = datatest.Folder(t, map[string][]byte{
		"a.tar": tarOf(t, "1.jpg", string(datatest.PNG(t, 1)), "1.seg.png", string(datatest.Mask(t, 11)), "2.seg.png", string(datatest.Mask(t, 12)), "2.jpg", string(datatest.PNG(t, 2))),
		"b.tar": tarOf(t, "1.seg.png", string(datatest.Mask(t, 21)), "1.jpg", string(datatest.PNG(t, 1))),
	})
	pics, err = OpenFiles(t.Context(), dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer pics.Close()
	opts.Extensions = []string{"seg.png"}
	masks, err = OpenFiles(t.Context(), dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer masks.Close()
	matched, err := dataset.Match(pics, masks, nil)
	if err != nil {
		t.Fatal(err)
	}
	d, err := photos.New(matched, photos.Options{Transform: imaging.Stretch(1, 1), Decode: imaging.Options{Indexes: true}})
	if err != nil {
		t.Fatal(err)
	}
	samples, _ := datatest.ReadAll(t, d)
	if got := slices.Concat(samples...); !bytes.Equal(got, []byte{11, 12, 21}) {
		t.Errorf("indexes %v", got)
	}
}
