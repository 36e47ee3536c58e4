package listing

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

// plainList is what [List] must find: paths with labels, in order, as the
// plainest walk does it, one folder after the other.
type plainList struct {
	dir     string
	classes []string
	files   []string
	labels  []int32
	others  int
}

func listPlainly(dir string) (*plainList, error) {
	l := &plainList{dir: dir, classes: []string{""}}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var folders []string
	for _, e := range entries {
		class, err := isClass(dir, e)
		if class {
			folders = append(folders, e.Name())
		} else if err == nil {
			err = l.entry("", e)
		}
		if err != nil {
			return nil, err
		}
	}
	if len(l.files) == 0 {
		l.classes = nil
	}
	for _, name := range folders {
		l.classes = append(l.classes, name)
		if err := l.walk(name); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func (l *plainList) walk(folder string) error {
	entries, err := os.ReadDir(filepath.Join(l.dir, folder))
	for _, e := range entries {
		if err == nil {
			err = l.entry(folder, e)
		}
	}
	return err
}

func (l *plainList) entry(folder string, e fs.DirEntry) error {
	name := filepath.Join(folder, e.Name())
	path := filepath.Join(l.dir, name)
	mode := e.Type()
	switch ext := strings.ToLower(filepath.Ext(name)); {
	case e.Name()[0] == '.':
		return nil
	case mode.IsDir():
		return l.walk(name)
	case !slices.Contains(imageExtensions, ext):
		l.others++
		return nil
	case mode&fs.ModeSymlink != 0:
		mode = 0 // a dangling one is listed
		if info, err := os.Stat(path); err == nil {
			mode = info.Mode()
		}
	}
	if !mode.IsRegular() {
		l.others++
		return nil
	}
	l.files = append(l.files, path)
	l.labels = append(l.labels, int32(len(l.classes)-1))
	return nil
}

var imageExtensions = []string{".jpg", ".jpeg", ".png", ".webp"}

func link(t *testing.T, target, name string) {
	t.Helper()
	if err := os.Symlink(target, name); err != nil {
		t.Skip("no symbolic links here: ", err)
	}
}

// forest makes a random tree of folders, files and links below dir.
type forest struct {
	t   *testing.T
	rng *rand.Rand
	all []string // every file and folder, to link to
	// broken is how many links to nowhere are wished for.
	broken int
}

// names are odd ones, also in their order: "a.png" comes after "a-b" and before
// "a0".
var (
	stems    = []string{"a", "a-b", "a0", "B", "z", ".hidden", "with space", "dots.in.it", "é", "日本", "e\u0301", "%s", "-", "~"}
	endings  = []string{".png", ".JPG", ".jpeg", ".WebP", ".txt", "", ".png.bak", "."}
	oddBytes = []string{"\xff\xfe", "new\nline", "back\\slash", "\x01"}
)

func (f *forest) name() string {
	s := stems[f.rng.IntN(len(stems))]
	if runtime.GOOS == "linux" && f.rng.IntN(8) == 0 {
		s = oddBytes[f.rng.IntN(len(oddBytes))]
	}
	return s + endings[f.rng.IntN(len(endings))]
}

func (f *forest) fill(dir string, depth int) {
	f.all = append(f.all, dir)
	for range f.rng.IntN(14) {
		path := filepath.Join(dir, f.name())
		if _, err := os.Lstat(path); err == nil {
			continue
		}
		switch k := f.rng.IntN(12); {
		case k < 4 && depth > 0:
			if err := os.Mkdir(path, 0o755); err != nil {
				f.t.Fatal(err)
			}
			f.fill(path, depth-1)
		case k == 4:
			link(f.t, f.all[f.rng.IntN(len(f.all))], path)
		case k == 5 && f.broken > 0:
			f.broken--
			link(f.t, filepath.Join(dir, "nowhere"), path)
		default:
			testkit.WriteFile(f.t, "", path)
			f.all = append(f.all, path)
		}
	}
}

// TestFolderListModel: many goroutines find what one finds.
func TestFolderListModel(t *testing.T) {
	var lists, empties int
	for seed := range uint64(90) {
		rng := rand.New(rand.NewPCG(seed, 0))
		f := &forest{t: t, rng: rng}
		if seed%3 == 0 {
			f.broken = 1 + rng.IntN(5)
		}
		dir := filepath.Join(t.TempDir(), "d")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		f.fill(dir, 3)
		want, wantErr := listPlainly(dir)
		got, err := List(t.Context(), dir, imageExtensions)
		switch {
		case wantErr != nil:
			t.Fatal(wantErr)
		case err != nil:
			t.Errorf("seed %d: %v", seed, err)
			continue
		}
		if lists++; len(want.files) == 0 {
			empties++
		}
		if got.Others != want.others {
			t.Errorf("seed %d: %d other files, want %d", seed, got.Others, want.others)
		}
		if c := got.Classes; !slices.Equal(c, want.classes) {
			t.Errorf("seed %d: classes %q, want %q", seed, c, want.classes)
		}
		if got.Len() != len(want.files) {
			t.Fatalf("seed %d: %d files, want %d", seed, got.Len(), len(want.files))
		}
		for i, path := range want.files {
			if got.Path(i) != path || got.Class(i) != want.labels[i] {
				t.Errorf("seed %d: file %d is %q of %d, want %q of %d", seed, i, got.Path(i), got.Class(i), path, want.labels[i])
			}
		}
	}
	if lists < 30 || empties < 3 {
		t.Errorf("%d lists, %d empty folders: want more of each", lists, empties)
	}
}

// TestFolderFirstError: of many errors the first in order is returned, however
// late it is met, and with more folders than are listed at a time.
func TestFolderFirstError(t *testing.T) {
	dir := t.TempDir()
	first := ""
	for class := range 4 * folderWalkers {
		deep := filepath.Join(dir, fmt.Sprintf("%03d", class), "b", "c", "d", "e")
		testkit.WriteFile(t, "", filepath.Join(deep, "x.png"))
		if class < 7 {
			continue
		}
		if first == "" {
			first = filepath.Join(deep, "z")
			lock(t, first)
		}
		lock(t, filepath.Join(dir, fmt.Sprintf("%03d", class), "c"))
	}
	for range 20 {
		var failed *fs.PathError
		if _, err := List(t.Context(), dir, imageExtensions); !errors.As(err, &failed) || failed.Path != first {
			t.Fatalf("%v, want one about %s", err, first)
		}
	}
}

// lock makes a folder that cannot be listed.
func lock(t *testing.T, path string) {
	testkit.OK(t, os.MkdirAll(path, 0o755))
	testkit.OK(t, os.Chmod(path, 0))
	t.Cleanup(func() { os.Chmod(path, 0o755) })
	if _, err := os.ReadDir(path); err == nil {
		t.Skip("this user may read everything")
	}
}

// TestFolderNeedless: what comes after an error is not listed any more, what
// comes before it is.
func TestFolderNeedless(t *testing.T) {
	top := &subtree{failed: 1 << 30}
	var leaves []*subtree
	for _, class := range []string{"a", "b", "c"} {
		sub := top.folder(class)
		for _, name := range []string{"1", "2", "3"} {
			leaves = append(leaves, sub.folder(name))
		}
	}
	w := &walker{ctx: t.Context()}
	for _, c := range []struct{ fail, first int }{{7, 7}, {4, 4}, {8, 4}, {5, 4}, {0, 0}} {
		w.fail(leaves[c.fail], fs.ErrPermission)
		for i, leaf := range leaves {
			if got, want := w.needless(leaf), i > c.first; got != want {
				t.Errorf("after an error in %d: %d needless: %t", c.fail, i, got)
			}
		}
	}
}

// TestFolderPaths: a path is the folder's as given and the file's, joined.
func TestFolderPaths(t *testing.T) {
	dir := t.TempDir()
	testkit.WriteFile(t, "", dir, "x.png")
	testkit.WriteFile(t, "", dir, "a", "y.png")
	t.Chdir(dir)
	for given, want := range map[string][]string{
		".":       {"x.png", "a/y.png"},
		"a/..//.": {"x.png", "a/y.png"},
		"./a":     {"a/y.png"},
		dir + "/": {dir + "/x.png", dir + "/a/y.png"},
		dir:       {dir + "/x.png", dir + "/a/y.png"},
	} {
		d, err := List(t.Context(), given, imageExtensions)
		if err != nil {
			t.Fatal(err)
		}
		for i, path := range want {
			if got := d.Path(i); got != filepath.FromSlash(path) {
				t.Errorf("%s: file %d is %q, want %q", given, i, got, path)
			}
		}
	}
}

// TestFolderIndexMemory: a file costs its name and little more.
func TestFolderIndexMemory(t *testing.T) {
	const classes, each = 5, 100
	dir := t.TempDir()
	for c := range classes {
		for i := range each {
			testkit.WriteFile(t, "", filepath.Join(dir, fmt.Sprintf("class-%02d", c), fmt.Sprintf("%08d.png", i)))
		}
	}
	d, err := List(t.Context(), dir, imageExtensions)
	if err != nil {
		t.Fatal(err)
	}
	x := d
	if len(x.runs) != classes || x.Len() != classes*each {
		t.Errorf("%d files in %d runs, want %d in %d", x.Len(), len(x.runs), classes*each, classes)
	}
	if got, most := cap(x.names.bytes)+8*cap(x.names.ends), classes*each*(12+8)*5/4; got > most {
		t.Errorf("%d bytes, want at most %d", got, most)
	}
}

func BenchmarkOpenFolder(b *testing.B) {
	dir := b.TempDir()
	for c := range 20 {
		for i := range 200 {
			testkit.WriteFile(b, "", filepath.Join(dir, fmt.Sprintf("class-%02d", c), fmt.Sprintf("%08d.png", i)))
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := List(b.Context(), dir, imageExtensions); err != nil {
			b.Fatal(err)
		}
	}
}
