package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/internal/errs"
	"github.com/pinion-gpu/pinion/internal/process"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/monitor"
)

var ctx = context.Background()

// TestMain makes the test binary a process that offers its snapshot, until its
// standard input ends, where a test asks for one.
func TestMain(m *testing.M) {
	if os.Getenv("PINION_TEST_OFFER") == "" {
		os.Exit(m.Run())
	}
	if _, err := Offer(ctx, Options{}); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("offered")
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0) // without a stop: the socket stays
}

// folder makes a folder of sockets for one test.
func folder(t *testing.T) string {
	t.Helper()
	if !ownersKnown {
		t.Skip("not on this system")
	}
	base, err := os.MkdirTemp("/tmp", "pn") // paths of sockets are short
	testkit.OK(t, err)
	t.Cleanup(func() { os.RemoveAll(base) })
	dir := filepath.Join(base, "s")
	t.Setenv(variable, dir)
	return dir
}

func offer(t *testing.T, o Options) (Process, func()) {
	t.Helper()
	stop, err := Offer(ctx, o)
	testkit.OK(t, err)
	t.Cleanup(stop)
	return testkit.Must(Find(os.Getpid()))(t), stop
}

// start starts a process that offers its snapshot.
func start(t *testing.T) *exec.Cmd {
	t.Helper()
	c := exec.Command(testkit.Must(os.Executable())(t))
	c.Env = append(os.Environ(), "PINION_TEST_OFFER=1")
	in, err := c.StdinPipe()
	testkit.OK(t, err)
	out, err := c.StdoutPipe()
	testkit.OK(t, err)
	testkit.OK(t, c.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = c.Wait()
	})
	line := make([]byte, 256)
	n, err := out.Read(line)
	if err != nil || string(line[:n]) != "offered\n" {
		t.Fatalf("%q %v", line[:n], err)
	}
	return c
}

func TestOffer(t *testing.T) {
	testkit.NoLeaks(t)
	dir := folder(t)
	p, stop := offer(t, Options{})
	if p.Foreign || !p.Alive() || filepath.Dir(p.Path) != dir {
		t.Errorf("%+v", p)
	}
	for path, mode := range map[string]os.FileMode{dir: 0o700, p.Path: 0o600} {
		if info := testkit.Must(os.Lstat(path))(t); info.Mode().Perm() != mode {
			t.Errorf("%s has mode %o", path, info.Mode().Perm())
		}
	}
	s := testkit.Must(p.Snapshot(ctx))(t)
	if s.PID != os.Getpid() || s.Seconds <= 0 || s.VRAM == nil {
		t.Errorf("%+v", s)
	}
	_, err := Offer(ctx, Options{})
	testkit.WantError(t, "a second offer", err, ErrOffered)
	stop()
	stop()
	_, err = p.Snapshot(ctx)
	testkit.WantError(t, "after the end", err, ErrGone)
	_, err = Find(os.Getpid())
	testkit.WantError(t, "after the end", err, ErrNotOffered, fmt.Sprint(os.Getpid()))
	if left := testkit.Must(os.ReadDir(dir))(t); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
	// And again, until a context ends.
	until, cancel := context.WithCancel(ctx)
	_, err = Offer(until, Options{})
	testkit.OK(t, err)
	cancel()
	testkit.Eventually(t, "the end of the offer", func() bool {
		_, err := Find(os.Getpid())
		return errors.Is(err, ErrNotOffered)
	})
	testkit.Eventually(t, "a new offer", func() bool {
		stop, err := Offer(ctx, Options{})
		if err == nil {
			stop()
		}
		return err == nil
	})
}

// Other processes are found, come and go, and leave nothing behind, also when they
// are killed.
func TestProcesses(t *testing.T) {
	dir := folder(t)
	if list := testkit.Must(Processes())(t); list == nil || len(list) != 0 {
		t.Errorf("%v", list)
	}
	a, b := start(t), start(t)
	offer(t, Options{})
	list := testkit.Must(Processes())(t)
	if len(list) != 3 || list[0].PID > list[1].PID || list[1].PID > list[2].PID {
		t.Fatalf("%v", list)
	}
	for _, p := range list {
		if s := testkit.Must(p.Snapshot(ctx))(t); s.PID != p.PID {
			t.Errorf("process %d says that it is %d", p.PID, s.PID)
		}
	}
	p := testkit.Must(Find(a.Process.Pid))(t)
	testkit.OK(t, a.Process.Kill())
	_ = a.Wait()
	if testkit.Must(os.Lstat(p.Path))(t) == nil || p.Alive() {
		t.Error("a killed process left nothing behind, so that this shows nothing; or it lives")
	}
	_, err := p.Snapshot(ctx)
	testkit.WantError(t, "a killed process", err, ErrGone, fmt.Sprint(p.PID))
	if list = testkit.Must(Processes())(t); len(list) != 2 {
		t.Errorf("%v", list)
	}
	testkit.OK(t, b.Process.Kill())
	_ = b.Wait()
	if list = testkit.Must(Processes())(t); len(list) != 1 || list[0].PID != os.Getpid() {
		t.Errorf("%v", list)
	}
	if left := testkit.Must(os.ReadDir(dir))(t); len(left) != 1 {
		t.Errorf("%v is left", left)
	}
}

// What is in the folder and is no socket of a live process.
func TestRests(t *testing.T) {
	dir := folder(t)
	self := testkit.Must(process.Self())(t)
	testkit.OK(t, os.Mkdir(dir, 0o700))
	dead, elsewhere := self, self
	dead.Start--
	elsewhere.Namespace++
	for name, stays := range map[string]bool{
		nameOf(dead): false, draft + nameOf(dead): false, draft + nameOf(self): true,
		nameOf(elsewhere): runtime.GOOS != "linux", "notes.txt": true, "1-2.sock": true, "x-1-2.sock": true,
		"007-1-2.sock": true, "99999999999-1-2.sock": true, "1-2-3-4.sock": true, ".sock": true,
	} {
		path := testkit.WriteFile(t, "", dir, name)
		defer func() {
			if _, err := os.Lstat(path); (err == nil) != stays {
				t.Errorf("%s: %v", name, err)
			}
		}()
	}
	list := testkit.Must(Processes())(t)
	if len(list) != 1 || !list[0].Foreign || list[0].PID != os.Getpid() {
		t.Errorf("%+v", list)
	}
	if _, err := Find(os.Getpid()); !errors.Is(err, ErrNotOffered) {
		t.Errorf("the number of a foreign process is taken for one here: %v", err)
	}
	_, err := list[0].Snapshot(ctx)
	if err == nil {
		t.Error("a file answers")
	}
	_ = os.Remove(filepath.Join(dir, draft+nameOf(self)))
	testkit.WriteFile(t, "", dir, draft+nameOf(self)) // of an offer that was cut short
	offer(t, Options{})
	_ = os.WriteFile(filepath.Join(dir, draft+nameOf(self)), nil, 0o600)
}

// A socket whose owner, in another namespace, listens no more is removed when that is
// found out.
func TestForeignGone(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("namespaces are Linux's")
	}
	dir := folder(t)
	testkit.OK(t, os.Mkdir(dir, 0o700))
	id := testkit.Must(process.Self())(t)
	id.Namespace++
	path := filepath.Join(dir, nameOf(id))
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	testkit.OK(t, err)
	l.SetUnlinkOnClose(false)
	testkit.OK(t, l.Close())
	p := testkit.Must(Processes())(t)[0]
	_, err = p.Snapshot(ctx)
	testkit.WantError(t, "a socket of nobody", err, ErrGone)
	if list := testkit.Must(Processes())(t); len(list) != 0 {
		t.Errorf("%v", list)
	}
}

func TestUnsafe(t *testing.T) {
	dir := folder(t)
	refused := func(what string, says ...string) {
		t.Helper()
		if stop, err := Offer(ctx, Options{}); err == nil {
			stop()
			t.Errorf("%s: offered", what)
		} else {
			testkit.WantError(t, what, err, ErrUnsafe, append(says, dir)...)
		}
		_, err := Processes()
		testkit.WantError(t, what, err, ErrUnsafe, dir)
		_, err = Find(1)
		testkit.WantError(t, what, err, ErrNotOffered, dir)
	}
	testkit.WriteFile(t, "", dir)
	refused("a file", "is no folder but a file")
	testkit.OK(t, os.Remove(dir))
	other := t.TempDir()
	testkit.OK(t, os.Chmod(other, 0o700))
	testkit.OK(t, os.Symlink(other, dir))
	refused("a link", "symbolic link")
	testkit.OK(t, os.Remove(dir))
	testkit.OK(t, os.Mkdir(dir, 0o700))
	for _, mode := range []os.FileMode{0o701, 0o750, 0o777} {
		testkit.OK(t, os.Chmod(dir, mode))
		refused(mode.String(), "chmod 700")
	}
	testkit.OK(t, os.Chmod(dir, 0o777|os.ModeSticky)) // chmod 700 /tmp would be bad advice
	refused("a folder for everybody", "is for everybody", "a folder of your own")
	testkit.OK(t, os.Chmod(dir, 0o700))
	if os.Geteuid() == 0 {
		testkit.OK(t, os.Chown(dir, 12345, -1))
		refused("a folder of another", "user 12345", "this is user 0", variable)
	}
}

func TestPlaces(t *testing.T) {
	folder(t)
	t.Setenv(variable, "off")
	stop, err := Offer(ctx, Options{})
	testkit.OK(t, err)
	stop()
	others, err := Processes()
	testkit.WantError(t, "switched off", err, ErrOff, variable)
	if len(others) != 0 {
		t.Errorf("%v", others)
	}
	_, err = Find(os.Getpid())
	testkit.WantError(t, "switched off", err, ErrOff)
	t.Setenv(variable, "yes")
	_, err = Offer(ctx, Options{})
	testkit.WantError(t, "a bad value", err, errs.ErrArgument, variable, `"yes"`)
	_, err = Processes()
	testkit.WantError(t, "a bad value", err, errs.ErrArgument)
	long := filepath.Join(t.TempDir(), strings.Repeat("x", 100))
	t.Setenv(variable, long)
	if _, err = Offer(ctx, Options{}); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("a long path: %v", err)
	}
	t.Setenv(variable, filepath.Join(t.TempDir(), "no", "such"))
	if _, err = Offer(ctx, Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder in none: %v", err)
	}

	t.Setenv(variable, "")
	run := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", run)
	t.Setenv("TMPDIR", run)
	list := testkit.Must(places())(t)
	if first, last := list[0], list[len(list)-1]; first.folder != filepath.Join(run, "pinion") || first.owned != run ||
		last.folder != filepath.Join(run, fmt.Sprintf("pinion-%d", os.Geteuid())) {
		t.Errorf("%+v", list)
	}
	testkit.OK(t, os.Chmod(run, 0o755)) // as one that somebody else made would be
	testkit.WantError(t, "a runtime folder that is open to others", list[0].make(), ErrUnsafe, run)
	testkit.OK(t, os.Chmod(run, 0o700))
	testkit.OK(t, list[0].make())
	testkit.OK(t, list[0].make())
}

func TestServe(t *testing.T) {
	folder(t)
	others := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "other ", r.URL.Path) })
	p, stop := offer(t, Options{Handler: others})
	get := func(method, path string) (int, string) {
		t.Helper()
		r := testkit.Must(http.NewRequest(method, "http://x"+path, http.NoBody))(t)
		a := testkit.Must(p.Client().Do(r))(t)
		defer a.Body.Close()
		if a.Header.Get(apiHeader) != "1" {
			t.Errorf("%s %s: %v", method, path, a.Header)
		}
		return a.StatusCode, string(testkit.Must(io.ReadAll(a.Body))(t))
	}
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS"} {
		if code, _ := get(method, snapshotPath); code != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d", method, code)
		}
	}
	if code, text := get("HEAD", snapshotPath); code != 200 || text != "" {
		t.Errorf("HEAD: %d %q", code, text)
	}
	var s monitor.Snapshot
	if code, text := get("GET", snapshotPath+"?a=%ff"); code != 200 || json.Unmarshal([]byte(text), &s) != nil || s.PID != os.Getpid() {
		t.Errorf("%d %q", code, text)
	}
	if code, text := get("GET", "/a/b"); code != 200 || text != "other /a/b" {
		t.Errorf("%d %q", code, text)
	}
	stop()
	p, _ = offer(t, Options{})
	if code, _ := get("GET", "/a"); code != 404 {
		t.Errorf("%d", code)
	}
}

// Connections that say nothing keep nobody else out for ever, and a handler that
// does not end by itself ends with the offer.
func TestManyClients(t *testing.T) {
	testkit.NoLeaks(t)
	folder(t)
	entered := make(chan struct{})
	p, stop := offer(t, Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
	})})
	var clients sync.WaitGroup
	clients.Go(func() {
		if a, err := p.Client().Get("http://x/stream"); err == nil {
			_ = a.Body.Close()
		}
	})
	testkit.Receive(t, "the handler", entered)
	var idle []net.Conn
	for range 3 * maxConnections {
		idle = append(idle, testkit.Must(net.Dial("unix", p.Path))(t))
	}
	// The last ones are closed at once: there is room for some.
	closed := 0
	for _, c := range idle[maxConnections:] {
		if _, err := c.Read(make([]byte, 1)); err != nil {
			closed++
		}
	}
	if closed != len(idle)-maxConnections {
		t.Errorf("%d of %d were closed", closed, len(idle)-maxConnections)
	}
	_, err := p.Snapshot(ctx)
	testkit.WantError(t, "one more", err, ErrBusy, fmt.Sprint(maxConnections))
	for _, c := range idle {
		_ = c.Close()
	}
	testkit.Eventually(t, "room", func() bool {
		_, err := p.Snapshot(ctx)
		return err == nil
	})
	stop()
	clients.Wait()
}

// Many readers get the same snapshot.
func TestShared(t *testing.T) {
	h := newHandler(nil)
	first := testkit.Must(h.snapshot())(t)
	h.taken = time.Now().Add(time.Hour) // so that no machine is too slow for this
	if second := testkit.Must(h.snapshot())(t); &first[0] != &second[0] {
		t.Error("a new snapshot at once")
	}
	h.taken = time.Now().Add(-fresh)
	if third := testkit.Must(h.snapshot())(t); &first[0] == &third[0] {
		t.Error("an old snapshot")
	}
}

// Processes that are newer, hostile, or not the one that they claim to be.
func TestBadAnswers(t *testing.T) {
	dir := folder(t)
	testkit.OK(t, os.Mkdir(dir, 0o700))
	self := testkit.Must(process.Self())(t)
	serve := func(path, api, text string, code int) func() {
		l := testkit.Must(net.Listen("unix", path))(t)
		s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if api != "" {
				w.Header().Set(apiHeader, api)
			}
			w.WriteHeader(code)
			_, _ = io.WriteString(w, text)
		})}
		go s.Serve(l)
		return func() { _ = s.Close() }
	}
	path := filepath.Join(dir, nameOf(self))
	p := Process{PID: os.Getpid(), Path: path}
	for _, c := range []struct {
		api, text string
		code      int
		kind      error
		says      string
	}{
		{"2", `{}`, 200, ErrVersion, `"2"`},
		{"", `{}`, 200, ErrVersion, `""`},
		{"x;y", `{}`, 200, ErrVersion, ``},
		{"1", `{}`, 500, nil, "500"},
		{"1", `{"pid": "\u001b"}`, 200, errs.ErrFormat, ""},
		{"1", `[`, 200, errs.ErrFormat, ""},
		{"1", strings.Repeat(" ", maxAnswer+1), 200, errs.ErrTooLarge, fmt.Sprint(maxAnswer)},
	} {
		stop := serve(path, c.api, c.text, c.code)
		_, err := p.Snapshot(ctx)
		if err == nil || c.kind != nil && !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%.20q: %v", c.text, err)
		}
		stop()
	}
	stop := serve(path, "1", `{"pid": 7, "news": [1]}`, 200) // a key of a later version
	if s, err := p.Snapshot(ctx); err != nil || s.PID != 7 {
		t.Error(s, err)
	}
	stop()
	if runtime.GOOS == "linux" { // this process is not the one of the name
		parent := start(t)
		was := testkit.Must(Find(parent.Process.Pid))(t)
		testkit.OK(t, os.Remove(was.Path))
		stop := serve(was.Path, "1", `{}`, 200)
		_, err := was.Snapshot(ctx)
		testkit.WantError(t, "another process at its socket", err, ErrUnsafe, fmt.Sprint(os.Getpid()))
		stop()
	}
	// One that does not answer.
	silent := testkit.Must(net.Listen("unix", path))(t)
	defer silent.Close()
	short, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	_, err := p.Snapshot(short)
	testkit.WantError(t, "silence", err, context.DeadlineExceeded)
}

func FuzzName(f *testing.F) {
	for _, name := range []string{"1-2-3.sock", "new-1-ff-f000.sock", "-1--.sock", "+1-2-3.sock"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		id, ok := parseName(name)
		if back := nameOf(id); ok && name != back && name != draft+back {
			t.Errorf("%q is %+v, which is %q", name, id, back)
		}
	})
}

// A connection that ends before the first byte is told from one that ends behind it,
// also where net/http sees the end before it has sent anything.
func TestAnswering(t *testing.T) {
	here, there := net.Pipe()
	go func() {
		_, _ = there.Write([]byte("x"))
		_ = there.Close()
	}()
	conn := &answering{Conn: here}
	if n, err := conn.Read(make([]byte, 8)); n != 1 || err != nil {
		t.Error(n, err)
	}
	if _, err := conn.Read(make([]byte, 8)); err != io.EOF {
		t.Error(err)
	}
	here, there = net.Pipe()
	_ = there.Close()
	if _, err := (&answering{Conn: here}).Read(make([]byte, 8)); err != io.ErrUnexpectedEOF {
		t.Error(err)
	}
}
