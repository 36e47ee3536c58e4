package dataset_test

import (
	"bytes"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/datatest"
	"github.com/pinion-gpu/pinion/dataset/photos"
	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

func openFiles(t testing.TB, dir string) *dataset.Folder {
	t.Helper()
	f, err := dataset.OpenFolder(t.Context(), dir, dataset.FolderOptions{Extensions: photos.Extensions})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// names are those of files below dir.
func names(f dataset.Files, dir string) (list []string) {
	for i := range f.Len() {
		list = append(list, strings.TrimPrefix(filepath.ToSlash(f.Name(i)), filepath.ToSlash(dir)+"/"))
	}
	return list
}

// Masks come in the order of their pics, though their own order is another
// one, there are more of them, and their extensions differ.
func TestMatchFolders(t *testing.T) {
	dir := datatest.Folder(t, map[string][]byte{
		"photos/b.jpg": nil, "photos/cat/a.png": nil, "photos/cat/b.v1.jpg": nil, "photos/dog/a.JPG": nil, "photos/dog/x/2.webp": nil,
		"masks/cat/a.png": datatest.Mask(t, 1), "masks/cat/b.v1.png": datatest.Mask(t, 2), "masks/dog/a.png": datatest.Mask(t, 3), "masks/dog/x/2.png": datatest.Mask(t, 4),
		"masks/b.png": datatest.Mask(t, 5), "masks/bird/0.png": datatest.Mask(t, 6), "masks/dog/x/02.png": datatest.Mask(t, 7),
	})
	pics, masks := openFiles(t, filepath.Join(dir, "photos")), openFiles(t, filepath.Join(dir, ".", "masks")+"/")
	matched, err := dataset.Match(pics, masks, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"masks/b.png", "masks/cat/a.png", "masks/cat/b.v1.png", "masks/dog/a.png", "masks/dog/x/2.png"}
	if got := names(matched, dir); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	d, err := photos.New(matched, photos.Options{Transform: imaging.Stretch(1, 1), Decode: imaging.Options{Indexes: true}})
	if err != nil {
		t.Fatal(err)
	}
	samples, labels := datatest.ReadAll(t, d)
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
	if _, err := r.ReadFile(t.Context(), 5, nil); !errors.Is(err, dataset.ErrArgument) {
		t.Error(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}

	// The other way round a mask has no photo, and by another name all are one.
	_, err = dataset.Match(masks, pics, nil)
	testkit.WantError(t, "no photo", err, fs.ErrNotExist, `none of 5 files has the name "bird/0"`)
	_, err = dataset.Match(pics, masks, func(string) string { return "one" })
	testkit.WantError(t, "one name", err, dataset.ErrArgument, "so has "+masks.Name(0))
	base := func(name string) string { return strings.TrimSuffix(filepath.Base(name), "_mask.png") }
	dir = datatest.Folder(t, map[string][]byte{"photos/x/1_mask.png": nil, "masks/1_mask.png": nil})
	matched, err = dataset.Match(openFiles(t, filepath.Join(dir, "photos")), openFiles(t, filepath.Join(dir, "masks")), base)
	if err != nil || !slices.Equal(names(matched, dir), []string{"masks/1_mask.png"}) {
		t.Error(err)
	}
}

// Pictures of a folder, and what was matched before, go by the names that the
// folder has: a second target has the order of the pics that have a mask.
func TestMatchAgain(t *testing.T) {
	dir := datatest.Folder(t, map[string][]byte{
		"photos/1.jpg": nil, "photos/2.jpg": nil, "photos/3.jpg": nil,
		"masks/1.png": nil, "masks/3.png": nil,
		"depth/1.png": nil, "depth/2.png": nil, "depth/3.png": nil,
	})
	open := func(name string) *dataset.Folder { return openFiles(t, filepath.Join(dir, name)) }
	pictures, err := photos.New(open("photos"), photos.Options{})
	if err != nil {
		t.Fatal(err)
	}
	pics, err := dataset.Match(open("masks"), pictures, nil)
	if err != nil {
		t.Fatal(err)
	}
	depth, err := dataset.Match(pics, open("depth"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := names(depth, dir); !slices.Equal(got, []string{"depth/1.png", "depth/3.png"}) {
		t.Errorf("%q", got)
	}

	none, err := dataset.Match(noFiles{pics}, pics, nil)
	if err != nil || none.Len() != 0 {
		t.Fatalf("%d of no files: %v", none.Len(), err)
	}
	_, err = dataset.Match(pics, none, nil)
	testkit.WantError(t, "no others", err, fs.ErrNotExist, `none of 0 files has the name "1"`)
}

type noFiles struct{ dataset.Files }

func (noFiles) Len() int { return 0 }
