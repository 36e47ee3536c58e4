package directio_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pinion-gpu/pinion/internal/directio"
)

func evict(t *testing.T, file *os.File, offset, n int64) {
	if err := file.Sync(); err != nil {
		t.Error(err)
	}
	if err := unix.Fadvise(int(file.Fd()), offset, n, unix.FADV_DONTNEED); err != nil {
		t.Error(err)
	}
}

// What is in the cache comes from there; what is not is read past it, and does
// not come into it. The system may drop pages of the file whenever it is short of
// them: what it has done to the file once it does not do again and again.
func TestCache(t *testing.T) {
	const tries = 5
	for try := 1; ; try++ {
		wrong := cacheProblems(t)
		if len(wrong) == 0 {
			return
		}
		if try == tries {
			t.Fatalf("%d times, at last: %s", tries, strings.Join(wrong, "; "))
		}
	}
}

// cacheProblems is what is not as it should be with a new file.
func cacheProblems(t *testing.T) (wrong []string) {
	const n = 4 << 20
	problem := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	file := newFile(t, random(n, 1))
	f := open(t, file, directio.Options{})
	direct := open(t, file, directio.Options{Path: directio.Direct}) // or skip
	if !f.Resident(0, n) || !f.Resident(n-1, 1) {
		problem("a file that was just written is not in the cache")
	}
	if direct.Resident(0, n) {
		problem("what is read past the cache counts as resident")
	}
	buf := pages(t, n)
	if _, err := f.Read(buf, 0, n); err != nil {
		t.Fatal(err)
	}
	if cached, direct := f.Counts(); cached != n || direct != 0 {
		problem("%d bytes from the cache, %d past it", cached, direct)
	}
	evict(t, file, 0, n/2)
	for at := int64(0); at < n/2; at += directio.Align {
		if f.Resident(at, 1) {
			if len(wrong) == 0 {
				t.Skip("the system keeps the file in its cache")
			}
			return wrong
		}
	}
	if f.Resident(0, n) || !f.Resident(n/2, n/2) {
		problem("half of the file is in the cache, but not by what is reported")
	}
	f = open(t, file, directio.Options{})
	for at := int64(0); at < n; at += n / 8 {
		if _, err := f.Read(buf, at, n/8); err != nil {
			t.Fatal(err)
		}
	}
	if cached, direct := f.Counts(); cached != n/2 || direct != n/2 {
		problem("%d bytes from the cache, %d past it; half of %d are there", cached, direct, n)
	}
	for at := int64(0); at < n/2; at += n / 8 {
		if f.Resident(at, 1) || f.Resident(at+100<<10, 1) {
			problem("the read past the cache at %d filled it", at)
		}
	}
	// From the cached half into the other: one miss may fill it a little.
	const piece = 8 << 10
	f = open(t, file, directio.Options{})
	for _, at := range []int64{n / 2, 0, n / 8, n / 4, 3 * n / 8} {
		if _, err := f.Read(buf, at, piece); err != nil {
			t.Fatal(err)
		}
	}
	for _, at := range []int64{n / 8, n / 4, 3 * n / 8} {
		if f.Resident(at, 1) {
			problem("the read past the cache at %d, after a miss, filled it", at)
		}
	}
	evict(t, file, 0, n/2)
	// Also what begins and ends in the middle of a page.
	f = open(t, file, directio.Options{})
	if _, err := f.Read(buf, 100, n/4); err != nil {
		t.Fatal(err)
	}
	if cached, direct := f.Counts(); direct != n/4 {
		problem("%d bytes from the cache, %d past it", cached, direct)
	}
	return wrong
}

// A read past the cache, which is of whole pages, leaves alone what is behind
// the memory that it was given.
func TestReadStaysInside(t *testing.T) {
	const n = 1 << 20
	want := random(n, 1)
	file := newFile(t, want)
	buf := pages(t, 16<<10)
	for i := range buf {
		buf[i] = 0xAA
	}
	f := open(t, file, directio.Options{Path: directio.Direct})
	for _, c := range []struct{ room, offset, n int64 }{{5000, 0, 4500}, {5000, 8192, 5000}, {8192, 100, 8192}, {4096, 4095, 4096}} {
		got, err := f.Read(buf[:c.room], c.offset, c.n)
		if err != nil || !bytes.Equal(got, want[c.offset:c.offset+c.n]) {
			t.Fatalf("%+v: wrong content, %v", c, err)
		}
		if bytes.Count(buf[c.room:], []byte{0xAA}) != len(buf)-int(c.room) {
			t.Fatalf("%+v: bytes behind the memory changed", c)
		}
		for i := range buf {
			buf[i] = 0xAA
		}
	}
}

// A file that is not the process's own: the kernel does not tell what is in
// the cache, and reads of a page find out. The test runs itself as somebody
// else, once with the file in the cache and once without.
func TestForeignFile(t *testing.T) {
	const variable = "PINION_TEST_FOREIGN_FILE"
	const n = 4 << 20
	if state, name, ok := strings.Cut(os.Getenv(variable), " "); ok {
		foreignFile(t, name, n, state == "cached")
		return
	}
	if os.Getuid() != 0 {
		t.Skip("only root can run a process as somebody else")
	}
	dir, err := os.MkdirTemp("", "pinion-foreign-*") // one that everybody may enter
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "file")
	program := filepath.Join(dir, "test")
	binary, err := os.ReadFile("/proc/self/exe")
	for _, err := range []error{err, os.Chmod(dir, 0o755), os.WriteFile(name, random(n, 1), 0o644), os.WriteFile(program, binary, 0o755)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	run := func(state string) {
		t.Helper()
		child := exec.Command(program, "-test.run=^TestForeignFile$", "-test.v")
		child.Env = append(os.Environ(), variable+"="+state+" "+name)
		child.Dir = dir
		child.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		text, err := child.CombinedOutput()
		if strings.Contains(string(text), "--- SKIP") {
			t.Skipf("%s", text)
		}
		if err != nil || !strings.Contains(string(text), "--- PASS: TestForeignFile") {
			t.Fatalf("%s: %v\n%s", state, err, text)
		}
	}
	run("cached")
	file, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	own := open(t, file, directio.Options{})
	evict(t, file, 0, n)
	for at := int64(0); at < n; at += directio.Align {
		if own.Resident(at, 1) {
			t.Skip("the system keeps the file in its cache")
		}
	}
	run("evicted")
}

// foreignFile checks what is found out about the n bytes of a file of somebody
// else, which are all in the cache or not at all.
func foreignFile(t *testing.T, name string, n int64, cached bool) {
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	f := open(t, file, directio.Options{})
	if f.Resident(0, n) != cached {
		t.Errorf("the file is in the cache: %t, which is not what is reported", cached)
	}
	if _, err := f.Read(pages(t, n), 0, n); err != nil {
		t.Error(err)
	}
	// To ask can make the kernel read ahead a little.
	if hit, direct := f.Counts(); cached && direct > 0 || !cached && direct < n/2 {
		t.Errorf("in the cache: %t, but %d bytes came from the cache, %d past it, %q", cached, hit, direct, f.Notes())
	}
}

// Files are only used for what they were opened for.
func TestAccess(t *testing.T) {
	file := newFile(t, random(100, 1))
	for _, c := range []struct {
		flags int
		write bool
	}{{os.O_RDONLY, true}, {os.O_WRONLY, false}, {os.O_RDWR | os.O_APPEND, true}} {
		other, err := os.OpenFile(file.Name(), c.flags, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		if _, err := directio.Open(other, directio.Options{Write: c.write}); !errors.Is(err, os.ErrPermission) {
			t.Errorf("flags %#x, write %t: %v", c.flags, c.write, err)
		}
	}
}

// Reserve fails where there is not the room, with the numbers.
func TestReserve(t *testing.T) {
	file := newFile(t, nil)
	if err := directio.Reserve(file, 1<<20); err != nil {
		t.Fatal(err)
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(file.Name(), &fs); err != nil {
		t.Fatal(err)
	}
	want := int64(fs.Blocks) * int64(fs.Bsize) * 2
	err := directio.Reserve(file, want)
	if err == nil {
		t.Skip("the file system does not reserve")
	}
	if errors.Is(err, unix.EFBIG) {
		t.Skip(err)
	}
	if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "are free") {
		t.Errorf("twice the disk: %v", err)
	}
}
