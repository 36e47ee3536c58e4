package process

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

func self() (ID, error) {
	b, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return ID{}, fmt.Errorf("process: %w", err)
	}
	s, ok := parseStat(b)
	if !ok || s.pid != os.Getpid() {
		// Such a /proc would make every judgement about others wrong.
		return ID{}, fmt.Errorf("process: /proc shows process %d for this one, which is %d: it is of another PID namespace",
			s.pid, os.Getpid())
	}
	return ID{PID: uint32(s.pid), Start: s.start, Namespace: namespace()}, nil
}

var namespace = sync.OnceValue(func() uint64 {
	var st unix.Stat_t
	if unix.Stat("/proc/self/ns/pid", &st) != nil {
		return 0
	}
	return st.Ino
})

func alive(id ID) bool {
	dir := "/proc/" + strconv.Itoa(int(id.PID))
	b, err := os.ReadFile(dir + "/stat")
	if err != nil {
		// A /proc mounted with hidepid hides what belongs to other users.
		return unix.Kill(int(id.PID), 0) != unix.ESRCH
	}
	s, ok := parseStat(b)
	switch {
	case !ok:
		return true
	case s.start != id.Start:
		return false
	case !s.exiting():
		return true
	}
	// The first thread may end long before the others.
	threads, err := os.ReadDir(dir + "/task")
	if err != nil {
		return unix.Kill(int(id.PID), 0) != unix.ESRCH
	}
	for _, thread := range threads {
		b, err := os.ReadFile(dir + "/task/" + thread.Name() + "/stat")
		if s, ok := parseStat(b); err == nil && ok && !s.exiting() {
			return true
		}
	}
	return false
}

// stat is what /proc/PID/stat says of a process's first thread.
type stat struct {
	pid   int
	state byte
	flags uint64
	start uint64 // clock ticks after boot
}

// exiting: the thread runs no more code of the program. It may take seconds
// from there to its end when the process holds much memory or a GPU.
func (s stat) exiting() bool {
	const exiting = 4 // PF_EXITING of the kernel's sched.h
	return s.flags&exiting != 0 || s.state == 'Z' || s.state == 'X'
}

// parseStat reads the fields by their place behind the name, which stands in
// parentheses and may itself contain spaces and parentheses (proc_pid_stat(5)).
func parseStat(b []byte) (s stat, ok bool) {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 0 || end < open {
		return s, false
	}
	const state, flags, start = 0, 6, 19 // fields 3, 9 and 22 of the line
	fields := bytes.Fields(b[end+1:])
	if len(fields) <= start || len(fields[state]) != 1 {
		return s, false
	}
	s.state = fields[state][0]
	var err [3]error
	s.pid, err[0] = strconv.Atoi(string(bytes.TrimSpace(b[:open])))
	s.flags, err[1] = strconv.ParseUint(string(fields[flags]), 10, 64)
	s.start, err[2] = strconv.ParseUint(string(fields[start]), 10, 64)
	return s, err == [3]error{}
}
