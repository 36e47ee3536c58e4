package listing

import (
	"cmp"
	"context"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// folderWalkers is how many folders are listed at a time. More than there are
// processors, since a folder that is not in memory waits for the disk or the
// network.
const folderWalkers = 16

// subtree is a folder and what is below it.
type subtree struct {
	path       string
	extensions []string // of the files that are listed
	files      nameList // in order
	// folders are in order. Folder k comes before file places[k].
	folders []*subtree
	places  []int
	others  int   // files with other extensions
	err     error // what ended the list; it comes after all that is in it

	parent *subtree
	number int // among the parent's folders
	failed int // number of the first of the folders with an error in or below it
}

// folder adds the folder of that name, of which nothing else is known yet.
func (t *subtree) folder(name string) *subtree {
	sub := &subtree{path: filepath.Join(t.path, name), extensions: t.extensions, parent: t, number: len(t.folders), failed: math.MaxInt}
	t.folders = append(t.folders, sub)
	t.places = append(t.places, t.files.len())
	return sub
}

// prefix is what comes before the name of a file in its path.
func (t *subtree) prefix() string { return Prefix(t.path) }

// Prefix is what comes before the name of a file of a folder in its path.
func Prefix(dir string) string {
	return strings.TrimSuffix(filepath.Join(dir, "x"), "x")
}

// grow makes room for the names of entries.
func (t *subtree) grow(entries []fs.DirEntry) {
	bytes := 0
	for _, e := range entries {
		bytes += len(e.Name())
	}
	t.files.grow(len(entries), bytes)
}

// count counts the files in t and below, the bytes of their names, and the
// other files.
func (t *subtree) count() (files, bytes, others int) {
	files, bytes, others = t.files.len(), len(t.files.bytes), t.others
	for _, sub := range t.folders {
		f, b, o := sub.count()
		files, bytes, others = files+f, bytes+b, others+o
	}
	return files, bytes, others
}

// walker lists folders, several at a time.
type walker struct {
	ctx     context.Context // of who waits for walk
	slots   chan struct{}
	running sync.WaitGroup
	errors  sync.Mutex // for err and failed of every folder
}

// walk lists the folders of top and all below them, and returns when it is
// done, or soon after the end of ctx.
func walk(ctx context.Context, top *subtree) {
	w := &walker{ctx: ctx, slots: make(chan struct{}, folderWalkers-1)} // and the caller
	for _, t := range top.folders {
		w.start(t)
	}
	w.running.Wait()
}

// start lists t in a goroutine of its own if there may be one more, and else
// at once: so there are never too many, and nobody waits for a place.
func (w *walker) start(t *subtree) {
	select {
	case w.slots <- struct{}{}:
		w.running.Go(func() {
			w.list(t)
			<-w.slots
		})
	default:
		w.list(t)
	}
}

func (w *walker) list(t *subtree) {
	if w.needless(t) {
		return
	}
	entries, err := readDir(w.ctx, t.path)
	if err != nil {
		w.fail(t, err)
		return
	}
	t.grow(entries)
	for _, e := range entries {
		if w.ctx.Err() != nil {
			return
		}
		if !hidden(e) && e.IsDir() {
			w.start(t.folder(e.Name()))
		} else {
			t.file(e)
		}
	}
}

// readDir is [os.ReadDir], which the end of ctx cuts short: a folder may have
// millions of entries.
func readDir(ctx context.Context, path string) ([]fs.DirEntry, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	const some = 4096
	var entries []fs.DirEntry
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		more, err := f.ReadDir(some)
		entries = append(entries, more...)
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// fail ends the list of t, and lets the folders that come later know.
func (w *walker) fail(t *subtree, err error) {
	w.errors.Lock()
	defer w.errors.Unlock()
	t.err = err
	for ; t.parent != nil; t = t.parent {
		t.parent.failed = min(t.parent.failed, t.number)
	}
}

// needless reports whether an error comes before t in order: then nobody will
// look at t.
func (w *walker) needless(t *subtree) bool {
	w.errors.Lock()
	defer w.errors.Unlock()
	for ; t.parent != nil; t = t.parent {
		if t.parent.failed < t.number {
			return true
		}
	}
	return false
}
