package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/pinion-gpu/pinion/internal/numa"
)

// system is how checks see the operating system. Tests put others in its place.
type system struct {
	goos   string
	root   fs.FS // the file system at /, with proc, sys and dev
	getenv func(string) string

	cpus       int // that this process may run on
	processors int // of them, how many Go uses: GOMAXPROCS
	parent     int // PID of who started this process, whose limits were not raised by Go
	nodes      func() []numa.Node

	// space tells the bytes of a file system, and those that are free.
	space func(path string) (total, free int64, err error)
	// write makes a file in a folder, and removes it.
	write func(folder string) error
	// read opens a file or folder, and closes it.
	read   func(path string) error
	exists func(path string) bool

	temp  string                 // folder
	cache func() (string, error) // folder
	abs   func(string) (string, error)
}

// thisSystem is the one that this process runs on.
func thisSystem() system {
	return system{
		goos: runtime.GOOS, root: os.DirFS("/"), getenv: os.Getenv,
		cpus: runtime.NumCPU(), processors: processors(), parent: os.Getppid(), nodes: numa.Nodes,
		space: space, write: writeIn, read: readAt, exists: exists, temp: os.TempDir(), cache: os.UserCacheDir, abs: realPath,
	}
}

func processors() int { return runtime.GOMAXPROCS(0) }

// writeIn makes a file in a folder, and removes it. Its error names the folder.
func writeIn(folder string) error {
	f, err := os.CreateTemp(folder, ".pinion-doctor-*")
	if err == nil {
		_, err = f.Write([]byte("x"))
		err = errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	if err != nil {
		return fmt.Errorf("%s: %w", folder, err)
	}
	return nil
}

// readAt opens a file or folder, and closes it. It fails for what is neither, such
// as a device.
func readAt(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is neither a file nor a folder", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return f.Close()
}

// nearest is a folder, or the nearest one above that exists.
func (s *system) nearest(folder string) string {
	for !s.exists(folder) && filepath.Dir(folder) != folder {
		folder = filepath.Dir(folder)
	}
	return folder
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// realPath is absolute and has no links.
func realPath(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(path)
	var at *fs.PathError
	switch {
	case errors.As(err, &at): // without the name of the call
		return "", fmt.Errorf("%s: %w", at.Path, at.Err)
	case err != nil: // which has no other
		return "", fmt.Errorf("%s: its links lead in a circle", path)
	}
	return real, nil
}

// text is a file of the system, without white space around it, and "" where there
// is none.
func (s *system) text(name string) string {
	b, err := fs.ReadFile(s.root, strings.TrimPrefix(path.Clean(name), "/"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// number is a file that holds one number.
func (s *system) number(name string) (int64, bool) {
	n, err := strconv.ParseInt(s.text(name), 10, 64)
	return n, err == nil
}

// there reports whether a file exists.
func (s *system) there(name string) bool {
	_, err := fs.Stat(s.root, strings.TrimPrefix(name, "/"))
	return err == nil
}

// chosen is the word in brackets of a file such as "always [madvise] never".
func (s *system) chosen(name string) string {
	_, after, _ := strings.Cut(s.text(name), "[")
	word, _, _ := strings.Cut(after, "]")
	return word
}

// meminfo reads /proc/meminfo, in bytes.
func (s *system) meminfo() map[string]int64 {
	m := map[string]int64{}
	for line := range strings.Lines(s.text("/proc/meminfo")) {
		name, value, _ := strings.Cut(line, ":")
		f := strings.Fields(value)
		if len(f) == 0 {
			continue
		}
		if n, err := strconv.ParseInt(f[0], 10, 64); err == nil && n >= 0 && n < math.MaxInt64/1024 {
			m[name] = n * 1024
		}
	}
	return m
}

// option is the value of an option of the kernel's command line, of which the last
// counts.
func (s *system) option(name string) (value string, given bool) {
	for _, word := range strings.Fields(s.text("/proc/cmdline")) {
		key, v, _ := strings.Cut(word, "=")
		if key == name {
			value, given = v, true
		}
	}
	return value, given
}

// cpuFlag reports whether the processors have a flag.
func (s *system) cpuFlag(flag string) bool {
	for line := range strings.Lines(s.text("/proc/cpuinfo")) {
		if name, flags, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "flags" {
			for _, f := range strings.Fields(flags) {
				if f == flag {
					return true
				}
			}
			return false
		}
	}
	return false
}

// unlimited is a limit that is none.
const unlimited = math.MaxInt64

// limit is a line of /proc/PID/limits, such as "Max open files".
func (s *system) limit(pid, name string) (soft, hard int64, ok bool) {
	for line := range strings.Lines(s.text("/proc/" + pid + "/limits")) {
		rest, found := strings.CutPrefix(line, name+" ")
		f := strings.Fields(rest)
		if !found || len(f) < 2 {
			continue
		}
		number := func(text string) (int64, bool) {
			if text == "unlimited" {
				return unlimited, true
			}
			n, err := strconv.ParseInt(text, 10, 64)
			return n, err == nil
		}
		var ok1, ok2 bool
		soft, ok1 = number(f[0])
		hard, ok2 = number(f[1])
		return soft, hard, ok1 && ok2
	}
	return 0, 0, false
}

// capable reports whether this process has a capability of Linux, by number.
func (s *system) capable(number int) bool {
	for line := range strings.Lines(s.text("/proc/self/status")) {
		if hex, found := strings.CutPrefix(line, "CapEff:"); found {
			set, err := strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
			return err == nil && set>>number&1 != 0
		}
	}
	return false
}

const capIPCLock = 14

// mount is where a path lies.
type mount struct {
	point, kind string
	number      string // of the block device, such as 259:1
	options     string // of the file system
}

// mountOf finds the mount of an absolute path.
func (s *system) mountOf(name string) (best mount, ok bool) {
	for line := range strings.Lines(s.text("/proc/self/mountinfo")) {
		before, after, _ := strings.Cut(line, " - ")
		f, g := strings.Fields(before), strings.Fields(after)
		if len(f) < 5 || len(g) < 2 {
			continue
		}
		point := unescape.Replace(f[4])
		inside := point == "/" || name == point || strings.HasPrefix(name, point+"/")
		if !inside || len(point) < len(best.point) { // of several at one point the last is seen
			continue
		}
		best, ok = mount{point: point, kind: g[0], number: f[2]}, true
		if len(g) > 2 {
			best.options = g[2]
		}
	}
	return best, ok
}

// drive names the block device of the data, such as nvme0n1p1; "" where that is not
// known.
func (m *machine) drive() string {
	name, err := m.abs(m.request.Path)
	if err != nil {
		return ""
	}
	mounted, _ := m.mountOf(name)
	for line := range strings.Lines(m.text("/sys/dev/block/" + mounted.number + "/uevent")) {
		if drive, found := strings.CutPrefix(line, "DEVNAME="); found {
			return oneLine(drive)
		}
	}
	return ""
}

// unescape undoes the octal escapes of mountinfo.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// gpusOnBus counts the GPUs of NVIDIA on the PCI bus. WSL shows none there.
func (s *system) gpusOnBus() (n int) {
	const vendor, display = "0x10de", "0x03"
	entries, _ := fs.ReadDir(s.root, "sys/bus/pci/devices")
	for _, e := range entries {
		dir := "/sys/bus/pci/devices/" + e.Name()
		if s.text(dir+"/vendor") == vendor && strings.HasPrefix(s.text(dir+"/class"), display) {
			n++
		}
	}
	return n
}

// wsl reports whether this is the Windows Subsystem for Linux.
func (s *system) wsl() bool {
	return s.there("/dev/dxg") || strings.Contains(strings.ToLower(s.text("/proc/version")), "microsoft")
}

// inContainer guesses whether this is a container, for the remedies.
func (s *system) inContainer() bool {
	return s.there("/.dockerenv") || s.there("/run/.containerenv") || s.getenv("KUBERNETES_SERVICE_HOST") != ""
}
