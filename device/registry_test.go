package device

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// withBackends replaces the registered backends for one test.
func withBackends(t *testing.T, backends ...Backend) {
	t.Helper()
	saved := Backends()
	set := func(list []Backend) {
		registry.Lock()
		defer registry.Unlock()
		registry.backends = list
	}
	set(nil)
	t.Cleanup(func() { set(saved) })
	for _, b := range backends {
		Register(b)
	}
}

// named is a device that is only a name: what its backend was asked to open.
type named struct {
	Device
	id string
}

func (n named) Info() Info { return Info{ID: n.id} }

func working(name string, rank int) Backend {
	return Backend{Name: name, Rank: rank, Open: func(spec string) (Device, error) {
		return named{id: name + "(" + spec + ")"}, nil
	}}
}

func absent(name string, rank int, reason string) Backend {
	return Backend{Name: name, Rank: rank, Open: func(string) (Device, error) {
		return nil, fmt.Errorf("%s: %w: %s", name, ErrUnavailable, reason)
	}}
}

func TestRegisterOrder(t *testing.T) {
	withBackends(t, working("low", 0), working("high", 20), working("mid-a", 10), working("mid-b", 10))
	var names []string
	for _, b := range Backends() {
		names = append(names, b.Name)
	}
	if want := []string{"high", "mid-a", "mid-b", "low"}; !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
	Backends()[0].Name = "changed by a caller"
	if Backends()[0].Name != "high" {
		t.Error("Backends hands out the registry itself")
	}
}

// What could not be opened is nil, also where a backend returns a nil pointer.
func TestOpenNothing(t *testing.T) {
	withBackends(t, Backend{Name: "one", Open: func(string) (Device, error) { return (*named)(nil), ErrUnavailable }})
	for _, name := range []string{"one", "one:1", "auto"} {
		if dev, err := Open(name); dev != nil || !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: %v, %v", name, dev, err)
		}
	}
}

func TestRegisterTwice(t *testing.T) {
	withBackends(t, working("one", 0))
	defer func() {
		if p := recover(); p == nil || !strings.Contains(fmt.Sprint(p), "one") {
			t.Errorf("panicked with %v, want the name that is taken", p)
		}
		if n := len(Backends()); n != 1 {
			t.Errorf("%d backends", n)
		}
	}()
	Register(working("one", 5))
}

func TestOpen(t *testing.T) {
	withBackends(t, working("host", 0), absent("cuda", 10, "no driver"), working("other", 5))
	for _, c := range []struct{ name, want string }{
		{"host", "host()"},
		{"host:", "host()"},
		{"host:4GiB", "host(4GiB)"},
		{"other:1:2", "other(1:2)"},
		{"auto", "other()"},
		{"", "other()"},
	} {
		dev, err := Open(c.name)
		if err != nil {
			t.Errorf("Open(%q): %v", c.name, err)
		} else if got := dev.Info().ID; got != c.want {
			t.Errorf("Open(%q) asked for %s, want %s", c.name, got, c.want)
		}
	}
	for _, c := range []struct{ name, want string }{
		{"cuda:0", "cuda: device unavailable: no driver"},
		{"Host", `device: device unavailable: no backend named "Host" (there are: auto, cuda, other, host)`},
		{":", `device: device unavailable: no backend named "" (there are: auto, cuda, other, host)`},
		{"auto:0", `device: device unavailable: no backend named "auto" (there are: auto, cuda, other, host)`},
	} {
		dev, err := Open(c.name)
		if dev != nil || !errors.Is(err, ErrUnavailable) || err.Error() != c.want {
			t.Errorf("Open(%q) = %v, %v, want %s", c.name, dev, err, c.want)
		}
	}
}

func TestOpenWithoutBackends(t *testing.T) {
	withBackends(t)
	for _, name := range []string{"", "auto", "host", "cuda:0"} {
		dev, err := Open(name)
		if dev != nil || err == nil || !strings.Contains(err.Error(), "device/all") {
			t.Errorf("Open(%q) = %v, %v, want the import that is missing", name, dev, err)
		}
	}
	dev, passed, err := Best()
	if dev != nil || passed != nil || err == nil {
		t.Errorf("Best() = %v, %v, %v", dev, passed, err)
	}
}

func TestBest(t *testing.T) {
	for _, c := range []struct {
		name     string
		backends []Backend
		want     string
		passed   string
		err      string
	}{
		{"the best works", []Backend{working("cuda", 10), working("host", 0)}, "cuda()", "", ""},
		{"the next works", []Backend{absent("cuda", 10, "no driver"), working("host", 0)}, "host()",
			"cuda: device unavailable: no driver", ""},
		{"the last works", []Backend{absent("b", 5, "off"), absent("a", 10, "no driver"), working("host", 0)}, "host()",
			"a: device unavailable: no driver\nb: device unavailable: off", ""},
		{"the worse does not matter", []Backend{working("a", 10), absent("b", 5, "off")}, "a()", "", ""},
		{"none works", []Backend{absent("a", 10, "no driver"), absent("b", 5, "off")}, "", "",
			"a: device unavailable: no driver\nb: device unavailable: off"},
	} {
		t.Run(c.name, func(t *testing.T) {
			withBackends(t, c.backends...)
			dev, passed, err := Best()
			got := ""
			if dev != nil {
				got = dev.Info().ID
			}
			if got != c.want || text(passed) != c.passed || text(err) != c.err {
				t.Errorf("opened %q, passed over %q, error %q", got, text(passed), text(err))
			}
			if err != nil && !errors.Is(err, ErrUnavailable) {
				t.Errorf("%v is not %q", err, ErrUnavailable)
			}
		})
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
