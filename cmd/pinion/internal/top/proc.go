package top

import (
	"bytes"
	"io"
	"os"
	"path"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of times in /proc, which is the same on all processors that Pinion
// runs on.
const tick = 10 * time.Millisecond

// maxProc is the most that is read of a file of /proc.
const maxProc = 64 << 10

func readProc(name string) string {
	f, err := proc.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxProc))
	if err != nil {
		return ""
	}
	return string(text)
}

// cpuTimes are those of all processors since the machine started, in ticks.
type cpuTimes struct{ busy, all uint64 }

func readCPU() cpuTimes { return parseCPU(readProc("stat")) }

// parseCPU reads the first line of /proc/stat: user, nice, system, idle, waiting for
// disks, interrupts, more interrupts, stolen; what follows is counted in the first.
func parseCPU(text string) (t cpuTimes) {
	line, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(line)
	if len(fields) < 5 || fields[0] != "cpu" {
		return cpuTimes{}
	}
	for i, field := range fields[1:min(len(fields), 9)] {
		n, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			return cpuTimes{}
		}
		t.all += n
		if i != 3 && i != 4 {
			t.busy += n
		}
	}
	return t
}

// busySince is the part of the time since earlier; nil where it is not known.
func (t cpuTimes) busySince(earlier cpuTimes) *float64 {
	if earlier.all == 0 || t.all <= earlier.all || t.busy < earlier.busy {
		return nil
	}
	part := min(1, float64(t.busy-earlier.busy)/float64(t.all-earlier.all))
	return &part
}

func loadAverages() []float64 {
	fields := strings.Fields(readProc("loadavg"))
	if len(fields) < 3 {
		return nil
	}
	list := make([]float64, 3)
	for i := range list {
		var err error
		if list[i], err = strconv.ParseFloat(fields[i], 64); err != nil {
			return nil
		}
	}
	return list
}

// about is what the system tells of a process.
type about struct {
	command  string // with its arguments; "" if it is not told
	resident int64
	cpu      time.Duration
}

func readProcess(pid int) (a about, ok bool) {
	dir := strconv.Itoa(pid)
	stat := readProc(path.Join(dir, "stat"))
	// The name is in parentheses, and may have some itself.
	i := strings.LastIndexByte(stat, ')')
	if i < 0 {
		return a, false
	}
	fields := strings.Fields(stat[i+1:])
	if len(fields) < 22 {
		return a, false
	}
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	pages, err3 := strconv.ParseInt(fields[21], 10, 64)
	if err1 != nil || err2 != nil || err3 != nil {
		return a, false
	}
	a.cpu, a.resident = time.Duration(user+system)*tick, pages*int64(os.Getpagesize())
	a.command = commandOf(pid)
	return a, true
}

// commandOf is the command line of a process, or "".
func commandOf(pid int) string {
	text := []byte(readProc(path.Join(strconv.Itoa(pid), "cmdline")))
	text = bytes.TrimRight(text[:min(len(text), 4096)], "\x00")
	return strings.ToValidUTF8(string(bytes.ReplaceAll(text, []byte{0}, []byte{' '})), "\uFFFD")
}
