package samplephotos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image/jpeg"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	photos := filepath.Join(dir, "photos")
	if err := Make(context.Background(), photos, 5, nil); err != nil {
		panic(err)
	}
	files, _ := filepath.Glob(filepath.Join(photos, "*", "*.jpg"))
	for _, f := range files {
		name, _ := filepath.Rel(photos, f)
		fmt.Println(filepath.ToSlash(name))
	}
	// Output:
	// beach/photo-00001.jpg
	// beach/photo-00005.jpg
	// city/photo-00002.jpg
	// forest/photo-00003.jpg
	// mountain/photo-00004.jpg
}

// tree returns the content of every file below dir.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		files[filepath.ToSlash(name)] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestMake(t *testing.T) {
	const n = 9
	parent := t.TempDir()
	one, two := filepath.Join(parent, "deep", "one"), filepath.Join(parent, "two")
	last := 0
	progress := func(done, total int) {
		if done != last+1 || total != n {
			t.Errorf("progress(%d, %d) after %d", done, total, last)
		}
		last = done
	}
	if err := Make(t.Context(), one, n, progress); err != nil {
		t.Fatal(err)
	}
	if last != n {
		t.Errorf("progress ended at %d", last)
	}
	if err := os.Mkdir(two, 0o755); err != nil { // an empty folder is no obstacle
		t.Fatal(err)
	}
	if err := Make(t.Context(), two, n, nil); err != nil {
		t.Fatal(err)
	}

	a, b := tree(t, one), tree(t, two)
	jpegs := 0
	for name, data := range a {
		if b[name] != data {
			t.Errorf("%s differs from run to run", name)
		}
		if !strings.HasSuffix(name, ".jpg") {
			continue
		}
		jpegs++
		if _, err := jpeg.Decode(strings.NewReader(data)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if jpegs != n || len(a) != len(b) {
		t.Errorf("%d photos, %d and %d files, want %d photos", jpegs, len(a), len(b), n)
	}
	photo, err := Photo(2)
	if err != nil || !bytes.Equal(photo, []byte(a["city/photo-00002.jpg"])) {
		t.Errorf("Photo(2) is not the photo of the folder: %v", err)
	}
	onlyEntry(t, filepath.Join(parent, "deep"), "one")
}

// onlyEntry checks that a folder holds just that.
func onlyEntry(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if strings.Join(names, " ") != strings.Join(want, " ") {
		t.Errorf("%s holds %q, want %q", dir, names, want)
	}
}

func TestMakeRecognisesItsWork(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "photos")
	if err := Make(t.Context(), dir, 2, nil); err != nil {
		t.Fatal(err)
	}
	unexpected := func(done, total int) { t.Errorf("made photo %d again", done) }
	if err := Make(t.Context(), dir, 2, unexpected); err != nil {
		t.Error(err)
	}
	if err := Make(t.Context(), dir, 3, unexpected); !errors.Is(err, fs.ErrExist) {
		t.Errorf("another number: %v", err)
	}
}

func TestMakeLeavesForeignFilesAlone(t *testing.T) {
	dir := t.TempDir()
	mine := filepath.Join(dir, "mine.txt")
	if err := os.WriteFile(mine, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Make(t.Context(), dir, 2, nil); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a folder with files: %v", err)
	}
	if err := Make(t.Context(), mine, 2, nil); err == nil {
		t.Error("a file is taken for a folder")
	}
	onlyEntry(t, dir, "mine.txt")
}

func TestMakeInterrupted(t *testing.T) {
	parent := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	err := Make(ctx, filepath.Join(parent, "photos"), 1000, func(done, total int) {
		if done == 3 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	onlyEntry(t, parent)
}

func TestMakeArguments(t *testing.T) {
	if err := Make(t.Context(), filepath.Join(t.TempDir(), "x"), 0, nil); err == nil {
		t.Error("no photos")
	}
	if _, err := Photo(0); err == nil {
		t.Error("photo 0")
	}
}
