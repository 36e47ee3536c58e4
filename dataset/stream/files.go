package stream

import (
	"context"
	"fmt"
	"io/fs"
	"iter"
	"strings"
	"sync"

	"github.com/pinion-gpu/pinion/dataset"
)

// Files is one member of every record of a stream, as [dataset.Files]: file i is
// that of record i. They are read in about ascending order, each once in an epoch,
// as package loader does it, by any number of readers: a reader waits until the
// stream has come to its file. Which record is first does not matter, so that a
// loader can resume. What is behind the end fails with [dataset.ErrEnd].
//
// BeginPass begins another epoch of the stream, and so does reading file 0 again,
// or one far back. The names and labels of files are known once they came, and
// forgotten 64 Ki files later.
type Files struct {
	stream     *Stream
	extensions []string

	mu     sync.Mutex
	wake   chan struct{} // closed and made anew when something changes
	epoch  int
	stop   context.CancelFunc // of the reading; nil: it has not begun
	done   chan struct{}      // closed when it has ended
	next   int                // the file that comes next
	wanted int                // the highest that was asked for
	held   map[int]arrived    // and not yet asked for
	about  [window]about      // of the files that came last, by index modulo window
	over   bool               // nothing comes any more
	closed bool
}

// arrived is the content of a file, or why it has none.
type arrived struct {
	content []byte
	err     error
}

type about struct {
	index int // and 1; 0 is none
	name  string
	label int32
}

const (
	// ahead is how many files come before they are asked for.
	ahead = 64
	// window is how far readers may be apart, and how many names are kept.
	window = 1 << 16
	// late is how far before the first file that is asked for others are.
	late = 256
)

// NewFiles makes files of the first member of every record that has one of those
// extensions, the first of them that there is; that of a record without one fails
// with [dataset.ErrFormat]. Default: jpg, jpeg, png, webp. Close ends the reading.
func NewFiles(s *Stream, extensions ...string) *Files {
	if len(extensions) == 0 {
		extensions = []string{"jpg", "jpeg", "png", "webp"}
	}
	return &Files{stream: s, extensions: extensions, wake: make(chan struct{}), held: map[int]arrived{}}
}

// Len returns [dataset.UnknownLen].
func (f *Files) Len() int { return dataset.UnknownLen }

// Name implements [dataset.Files].
func (f *Files) Name(i int) string {
	if a, ok := f.known(i); ok {
		return a.name
	}
	return fmt.Sprintf("%s[%d]", f.stream.name, i)
}

// Label implements [dataset.Files]. It is -1 before the file came.
func (f *Files) Label(i int) int32 {
	if a, ok := f.known(i); ok {
		return a.label
	}
	return -1
}

func (f *Files) known(i int) (about, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a := f.about[max(i, 0)%window]
	return a, a.index == i+1
}

// NewFileReader implements [dataset.Files].
func (f *Files) NewFileReader() (dataset.FileReader, error) { return &fileReader{files: f}, nil }

// Close ends the reading and returns when it has ended.
func (f *Files) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.changed()
	f.end()
	return nil
}

// Repeats implements [dataset.Repeater].
func (f *Files) Repeats() error { return f.stream.Repeats() }

// BeginPass implements [dataset.Repeater].
func (f *Files) BeginPass(epoch int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stop != nil && f.stream.once { // to read it is an error
		return
	}
	f.end()
	f.epoch, f.stop = epoch, nil
}

// end ends the reading, if it has begun. The lock is held, but not throughout.
func (f *Files) end() {
	if f.stop == nil {
		return
	}
	stop, done := f.stop, f.done
	f.mu.Unlock()
	stop()
	<-done
	f.mu.Lock()
}

// changed wakes all who wait. The lock is held.
func (f *Files) changed() {
	close(f.wake)
	f.wake = make(chan struct{})
}

// wait waits for a change. The lock is held, but not while it waits.
func (f *Files) wait(ctx context.Context) error {
	wake := f.wake
	f.mu.Unlock()
	defer f.mu.Lock()
	select {
	case <-wake:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// read returns file i when it has come.
func (f *Files) read(ctx context.Context, i int) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i < 0 || i >= dataset.UnknownLen {
		return nil, fmt.Errorf("%s: %w: file %d", f.stream.name, dataset.ErrArgument, i)
	}
	if f.stop == nil || i < f.next-window {
		if err := f.begin(i); err != nil {
			return nil, err
		}
	}
	if i > f.wanted {
		f.wanted = i
		f.changed()
	}
	for {
		switch file, ok := f.held[i]; {
		case f.closed:
			return nil, fmt.Errorf("%s[%d]: %w", f.stream.name, i, fs.ErrClosed)
		case ok:
			delete(f.held, i)
			return file.content, file.err
		case i < f.next:
			if err := f.begin(i); err != nil {
				return nil, err
			}
			continue
		case f.over:
			return nil, fmt.Errorf("%s: %w: it has %d records", f.stream.name, dataset.ErrEnd, f.next)
		}
		if err := f.wait(ctx); err != nil {
			return nil, err
		}
	}
}

// begin begins to read the stream for file i and those behind it, and some
// before it: several readers begin together, and the first of them to come need
// not have the first file. The lock is held, but not throughout.
func (f *Files) begin(i int) error {
	if f.stop != nil {
		if err := f.stream.Repeats(); err != nil {
			return err
		}
		epoch := f.epoch
		f.end()
		if f.epoch != epoch || f.closed { // others began meanwhile
			return nil
		}
		f.epoch++
	}
	ctx, cancel := context.WithCancel(context.Background())
	f.stop, f.done = cancel, make(chan struct{})
	f.next, f.wanted, f.over = max(0, i-late), i, false
	clear(f.held)
	go f.fetch(ctx, f.stream.Records(ctx, Position{f.epoch, int64(f.next)}), f.done)
	return nil
}

// fetch takes in the records of a stream until it ends, a little ahead of those
// who read.
func (f *Files) fetch(ctx context.Context, records iter.Seq2[*Record, error], done chan struct{}) {
	defer close(done)
	for r, err := range records {
		file := arrived{err: err}
		if err != nil {
			r = &Record{Name: f.stream.name, Label: -1}
		} else if file.content = r.Member(f.extensions...); file.content == nil {
			file.err = fmt.Errorf("%s: %w: no member %s", r.Name, dataset.ErrFormat, strings.Join(f.extensions, ", "))
		}
		if !f.put(ctx, r, file) {
			return
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = true
	f.changed()
}

// put takes in a record when there is room; false when the reading is over.
func (f *Files) put(ctx context.Context, r *Record, file arrived) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.next > f.wanted+ahead {
		if f.wait(ctx) != nil {
			return false
		}
	}
	if ctx.Err() != nil {
		return false
	}
	f.about[f.next%window] = about{f.next + 1, r.Name, r.Label}
	f.held[f.next] = file
	delete(f.held, f.next-window) // nobody came for it
	f.next++
	f.changed()
	return true
}

type fileReader struct {
	files  *Files
	closed bool
}

// ReadFile implements [dataset.FileReader].
func (r *fileReader) ReadFile(ctx context.Context, i int, buf []byte) ([]byte, error) {
	if r.closed {
		return nil, fmt.Errorf("%s[%d]: %w", r.files.stream.name, i, fs.ErrClosed)
	}
	content, err := r.files.read(ctx, i)
	if err != nil {
		return nil, err
	}
	return append(buf[:0], content...), nil
}

// Close implements [dataset.FileReader].
func (r *fileReader) Close() error {
	r.closed = true
	return nil
}
