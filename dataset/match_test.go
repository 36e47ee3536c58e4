package dataset

import (
	"bytes"
	"errors"
	"image"
	"image/color"
	"image/png"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/dataset/shard"
	"github.com/pinion-gpu/pinion/imaging"
)

// mask is a PNG with a palette, whose indexes are all v.
func mask(t testing.TB, v byte) []byte {
	t.Helper()
	palette := make(color.Palette, 256)
	for i := range palette {
		palette[i] = color.RGBA{byte(i * 3), 0, byte(255 - i), 255}
	}
	m := image.NewPaletted(image.Rect(0, 0, 8, 8), palette)
	for i := range m.Pix {
		m.Pix[i] = v
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func openFiles(t testing.TB, dir string) *Folder {
	t.Helper()
	f, err := OpenFolder(t.Context(), dir, FolderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// names are those of files below dir.
func names(f Files, dir string) (list []string) {
	for i := range f.Len() {
		list = append(list, strings.TrimPrefix(filepath.ToSlash(f.Name(i)), filepath.ToSlash(dir)+"/"))
	}
	return list
}

// Masks come in the order of their photos, though their own order is another
// one, there are more of them, and their extensions differ.
func TestMatchFolders(t *testing.T) {
	dir := folder(t, map[string][]byte{
		"photos/b.jpg": nil, "photos/cat/a.png": nil, "photos/cat/b.v1.jpg": nil, "photos/dog/a.JPG": nil, "photos/dog/x/2.webp": nil,
		"masks/cat/a.png": mask(t, 1), "masks/cat/b.v1.png": mask(t, 2), "masks/dog/a.png": mask(t, 3), "masks/dog/x/2.png": mask(t, 4),
		"masks/b.png": mask(t, 5), "masks/bird/0.png": mask(t, 6), "masks/dog/x/02.png": mask(t, 7),
	})
	photos, masks := openFiles(t, filepath.Join(dir, "photos")), openFiles(t, filepath.Join(dir, ".", "masks")+"/")
	matched, err := Match(photos, masks, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"masks/b.png", "masks/cat/a.png", "masks/cat/b.v1.png", "masks/dog/a.png", "masks/dog/x/2.png"}
	if got := names(matched, dir); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	d, err := NewImages(matched, ImageOptions{Transform: imaging.Stretch(1, 1), Decode: imaging.Options{Indexes: true}})
	if err != nil {
		t.Fatal(err)
	}
	samples, labels := readAll(t, d)
	if got := slices.Concat(samples...); !bytes.Equal(got, []byte{5, 1, 2, 3, 4}) || !slices.Equal(labels, []int32{0, 2, 2, 3, 3}) {
		t.Errorf("indexes %v of classes %v", got, labels)
	}
	if c := d.Classes(); !slices.Equal(c, []string{"", "bird", "cat", "dog"}) {
		t.Errorf("classes %q", c)
	}
	r, err := matched.NewFileReader()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.ReadFile(t.Context(), 5, nil); !errors.Is(err, ErrArgument) {
		t.Error(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}

	// The other way round a mask has no photo, and by another name all are one.
	_, err = Match(masks, photos, nil)
	wantError(t, "no photo", err, fs.ErrNotExist, `none of 5 files has the name "bird/0"`)
	_, err = Match(photos, masks, func(string) string { return "one" })
	wantError(t, "one name", err, ErrArgument, "as "+masks.Name(0)+" has")
	base := func(name string) string { return strings.TrimSuffix(filepath.Base(name), "_mask.png") }
	dir = folder(t, map[string][]byte{"photos/x/1_mask.png": nil, "masks/1_mask.png": nil})
	matched, err = Match(openFiles(t, filepath.Join(dir, "photos")), openFiles(t, filepath.Join(dir, "masks")), base)
	if err != nil || !slices.Equal(names(matched, dir), []string{"masks/1_mask.png"}) {
		t.Error(err)
	}
}

// Two members of the samples of shards go together, also where samples lack one
// or the other.
func TestMatchShards(t *testing.T) {
	dir := folder(t, map[string][]byte{
		"a.tar": tarOf(t, "1.jpg", string(plain(t, 1)), "1.seg.png", string(mask(t, 11)), "2.jpg", string(plain(t, 2)), "3.seg.png", string(mask(t, 13))),
		"b.tar": tarOf(t, "1.seg.png", string(mask(t, 21)), "1.jpg", string(plain(t, 1))),
	})
	set, err := shard.Open(t.Context(), dir, noCache.Shards)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	photos, err := NewTar(set, "jpg")
	if err != nil {
		t.Fatal(err)
	}
	masks, err := NewTar(set, "seg.png")
	if err != nil {
		t.Fatal(err)
	}
	if photos.Len() != masks.Len() {
		t.Fatalf("%d photos, %d masks: their lengths were to be equal by chance", photos.Len(), masks.Len())
	}
	_, err = Match(photos, masks, nil)
	wantError(t, "no mask", err, fs.ErrNotExist, "a.tar/2.jpg: file does not exist: nothing goes with it")
	_, err = Match(masks, photos, nil)
	wantError(t, "no photo", err, fs.ErrNotExist, "a.tar/3.seg.png")

	// Shards whose samples are whole, opened once for each member.
	opts := noCache
	opts.Extensions = []string{"jpg"}
	dir = folder(t, map[string][]byte{
		"a.tar": tarOf(t, "1.jpg", string(plain(t, 1)), "1.seg.png", string(mask(t, 11)), "2.seg.png", string(mask(t, 12)), "2.jpg", string(plain(t, 2))),
		"b.tar": tarOf(t, "1.seg.png", string(mask(t, 21)), "1.jpg", string(plain(t, 1))),
	})
	photos, err = OpenTar(t.Context(), dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer photos.Close()
	opts.Extensions = []string{"seg.png"}
	masks, err = OpenTar(t.Context(), dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer masks.Close()
	matched, err := Match(photos, masks, nil)
	if err != nil {
		t.Fatal(err)
	}
	d, err := NewImages(matched, ImageOptions{Transform: imaging.Stretch(1, 1), Decode: imaging.Options{Indexes: true}})
	if err != nil {
		t.Fatal(err)
	}
	samples, _ := readAll(t, d)
	if got := slices.Concat(samples...); !bytes.Equal(got, []byte{11, 12, 21}) {
		t.Errorf("indexes %v", got)
	}
}

// Pictures of a folder, and what was matched before, go by the names that the
// folder has: a second target has the order of the photos that have a mask.
func TestMatchAgain(t *testing.T) {
	dir := folder(t, map[string][]byte{
		"photos/1.jpg": nil, "photos/2.jpg": nil, "photos/3.jpg": nil,
		"masks/1.png": nil, "masks/3.png": nil,
		"depth/1.png": nil, "depth/2.png": nil, "depth/3.png": nil,
	})
	open := func(name string) *Folder { return openFiles(t, filepath.Join(dir, name)) }
	pictures, err := NewImages(open("photos"), ImageOptions{})
	if err != nil {
		t.Fatal(err)
	}
	photos, err := Match(open("masks"), pictures, nil)
	if err != nil {
		t.Fatal(err)
	}
	depth, err := Match(photos, open("depth"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := names(depth, dir); !slices.Equal(got, []string{"depth/1.png", "depth/3.png"}) {
		t.Errorf("%q", got)
	}

	none, err := Match(&Matched{files: photos}, photos, nil)
	if err != nil || none.Len() != 0 {
		t.Fatalf("%d of no files: %v", none.Len(), err)
	}
	_, err = Match(photos, none, nil)
	wantError(t, "no others", err, fs.ErrNotExist, `none of 0 files has the name "1"`)
}
