package process

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// statLine is a line of /proc/PID/stat with these fields.
func statLine(pid, name, state, flags, start string) string {
	return pid + " (" + name + ") " + state + strings.Repeat(" 1", 5) + " " + flags + strings.Repeat(" 2", 12) + " " + start + " 4 5 6\n"
}

func TestParseStat(t *testing.T) {
	for _, c := range []struct {
		line string
		want stat
		ok   bool
	}{
		{statLine("7", "go", "S", "4194560", "99"), stat{7, 'S', 4194560, 99}, true},
		{statLine("7", "a) R 1 (b", "Z", "1", "18446744073709551615"), stat{7, 'Z', 1, 1<<64 - 1}, true},
		{"7 (go) S 1", stat{}, false},
		{statLine("x", "go", "S", "3", "99"), stat{}, false},
		{statLine("7", "go", "S", "x", "99"), stat{}, false},
		{statLine("7", "go", "S", "3", "-1"), stat{}, false},
		{statLine("7", "go", "SS", "3", "99"), stat{}, false},
		{") (", stat{}, false},
		{"", stat{}, false},
	} {
		got, ok := parseStat([]byte(c.line))
		if ok != c.ok || ok && got != c.want {
			t.Errorf("%q: %+v %t, want %+v %t", c.line, got, ok, c.want, c.ok)
		}
	}
}

func TestExiting(t *testing.T) {
	for _, c := range []struct {
		state byte
		flags uint64
		want  bool
	}{{'R', 0, false}, {'T', 4194560, false}, {'Z', 0, true}, {'X', 0, true}, {'R', 4194564, true}, {'D', 4, true}} {
		if got := (stat{state: c.state, flags: c.flags}).exiting(); got != c.want {
			t.Errorf("state %c, flags %#x: exiting %t", c.state, c.flags, got)
		}
	}
}

// A process whose first thread has ended lives on in the others.
func TestFirstThreadEnded(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip(err)
	}
	const program = "import ctypes, sys, threading\n" +
		"threading.Thread(target=lambda: (print('up', flush=True), sys.stdin.read())).start()\n" +
		"ctypes.CDLL(None).pthread_exit(None)\n"
	child := exec.Command(python, "-c", program)
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { child.Process.Kill(); child.Wait() }()
	defer in.Close()
	out.Read(make([]byte, 3))
	path := "/proc/" + strconv.Itoa(child.Process.Pid) + "/stat"
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		s, ok := parseStat(b)
		if !ok || time.Now().After(deadline) {
			t.Skipf("the first thread does not end here: %s", b)
		}
		id := ID{PID: uint32(s.pid), Start: s.start, Namespace: namespace()}
		if !id.Alive() {
			t.Fatalf("dead: %s", b)
		}
		if s.state == 'Z' {
			break
		}
	}
}
