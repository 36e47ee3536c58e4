package copies

import (
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// launcher is a device that only notes what is launched.
type launcher struct {
	device.Device
	missing  string
	closed   int
	launches map[string]int // bytes of parameters
}

type kernel struct {
	l    *launcher
	name string
}

func (l *launcher) Info() device.Info {
	return device.Info{ID: "launcher", Multiprocessors: 10}
}
func (l *launcher) ImageFormat() device.ImageFormat          { return device.PTX }
func (l *launcher) LoadModule([]byte) (device.Module, error) { return l, nil }
func (l *launcher) Close() error                             { l.closed++; return nil }
func (l *launcher) Kernel(name string) (device.Kernel, error) {
	if name == l.missing {
		return nil, device.ErrArgument
	}
	return kernel{l, name}, nil
}

func (k kernel) Launch(_ device.Stream, _ device.Grid, args *device.Args) error {
	k.l.launches[k.name] = len(args.Bytes())
	return args.Err()
}

// What is compiled is what is launched, with its parameters.
func TestPTX(t *testing.T) {
	l := &launcher{launches: map[string]int{}}
	s := testkit.Must(loadSums(l))(t)
	for _, dt := range []dtype.DType{dtype.F16, dtype.BF16, dtype.F32, dtype.F64} {
		testkit.OK(t, s.sum(nil, addition{t: dt, mean: true, words: 100, ranks: 2}))
	}
	testkit.OK(t, s.Close())
	if !strings.HasPrefix(strings.TrimSpace(string(ptx)), ".version 7.0\n.target sm_75\n") {
		t.Errorf("the PTX begins with %.40q", ptx)
	}
	for name, entry := range testkit.PTXEntries(string(ptx)) {
		if n, ok := l.launches[name]; !ok || n != entry.ParamBytes {
			t.Errorf("%s takes %d bytes of parameters, and is launched with %d", name, entry.ParamBytes, n)
		}
		delete(l.launches, name)
	}
	if len(l.launches) > 0 {
		t.Errorf("not compiled: %v; go generate compiles it, where nvcc is", l.launches)
	}
	l = &launcher{missing: "sum_f32"}
	if _, err := loadSums(l); err == nil || l.closed != 1 {
		t.Errorf("%v, with %d modules closed, want an error for a kernel that is missing", err, l.closed)
	}
}
