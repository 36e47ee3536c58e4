package numa

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

func anyCPU(int) bool { return true }

// span is the numbers from first to last.
func span(first, last int) []int {
	var list []int
	for i := first; i <= last; i++ {
		list = append(list, i)
	}
	return list
}

func TestRead(t *testing.T) {
	for _, c := range []struct {
		tree string
		may  func(int) bool
		want []Node
	}{
		{"one", anyCPU, []Node{{0, span(0, 1), 6777044 << 10}}},
		{"two", anyCPU, []Node{
			{0, append(span(0, 15), span(32, 47)...), 263842412 << 10},
			{1, append(span(16, 31), span(48, 63)...), 264224540 << 10}}},
		{"two", func(cpu int) bool { return cpu >= 30 && cpu < 34 }, []Node{
			{0, span(32, 33), 263842412 << 10},
			{1, span(30, 31), 264224540 << 10}}},
		{"two", func(cpu int) bool { return cpu < 4 }, []Node{ // a cpuset of the other socket
			{0, span(0, 3), 263842412 << 10},
			{1, nil, 264224540 << 10}}},
		{"cxl", anyCPU, []Node{{0, span(0, 7), 131921532 << 10}, {2, nil, 64 << 30}}},
		{"memoryless", anyCPU, []Node{{0, span(0, 7), 131921532 << 10}, {1, span(8, 15), 0}}},
	} {
		got, err := read(os.DirFS("testdata/"+c.tree), c.may)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v, want %+v", c.tree, got, err, c.want)
		}
	}
}

func TestReadBroken(t *testing.T) {
	if nodes, err := read(os.DirFS("testdata/missing"), anyCPU); nodes != nil || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no sysfs: %v, %v", nodes, err)
	}
	for name, content := range map[string]string{
		"online": "1-0\n", "node0/cpulist": "x\n", "node0/meminfo": "Node 0 MemFree: 1 kB\n",
	} {
		tree := fstest.MapFS{
			"online":        {Data: []byte("0\n")},
			"node0/cpulist": {Data: []byte("0\n")},
			"node0/meminfo": {Data: []byte("Node 0 MemTotal: 1 kB\n")},
		}
		if _, err := read(tree, anyCPU); err != nil {
			t.Fatal(err)
		}
		tree[name] = &fstest.MapFile{Data: []byte(content)}
		if _, err := read(tree, anyCPU); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("bad %s: %v", name, err)
		}
		delete(tree, name)
		if _, err := read(tree, anyCPU); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("no %s: %v", name, err)
		}
	}
}

func TestParseList(t *testing.T) {
	for text, want := range map[string][]int{
		"": nil, "\n": nil, "0": {0}, "0\n": {0}, "0-3,8\n": {0, 1, 2, 3, 8}, "5-5": {5},
		"8191": {8191}, "1,2,4-5": {1, 2, 4, 5},
	} {
		if got, err := parseList(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{
		",", "0,", "-", "-1", "0-", "3-1", "3,1", "0-3,3", "0,0", "8192", "0-8192", "0-4294967295",
		"99999999999999999999", "+1", " 1", "0x1", "0 1", "0-3:1/2", "\n\n", "1_0",
	} {
		if got, err := parseList(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestParseMemTotal(t *testing.T) {
	for text, want := range map[string]int64{
		"Node 0 MemTotal: 5 kB":                                     5 << 10,
		"Node 12 MemFree: 1 kB\nNode 12 MemTotal:     0 kB\n":       0,
		"Node 0 MemTotal: 9007199254740991 kB\n":                    math.MaxInt64 &^ 1023,
		"Node 0 MemTotal: 3 kB\nNode 0 MemTotal: 4 kB\nleft over\n": 3 << 10,
	} {
		if got, err := parseMemTotal(text); err != nil || got != want {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "MemTotal: 5 kB", "Node 0 MemTotal: 5", "Node 0 MemTotal: 5 MB", "Node 0 MemTotal: -5 kB",
		"Node 0 MemTotal: x kB", "Node 0 MemTotal: 9007199254740992 kB",
	} {
		if got, err := parseMemTotal(text); err == nil {
			t.Errorf("%q: %d", text, got)
		}
	}
}

// What is accepted is ascending and in range, and means the same number by
// number.
func FuzzParseList(f *testing.F) {
	for _, seed := range []string{"", "0-3,8\n", "0,2", "1-0", "0-4294967295", ",", "8191"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, err := parseList(text)
		if err != nil {
			return
		}
		var numbers []string
		for i, id := range list {
			if id < 0 || id >= maxID || i > 0 && id <= list[i-1] {
				t.Fatalf("%q: %d at %d of %v", text, id, i, list)
			}
			numbers = append(numbers, strconv.Itoa(id))
		}
		again, err := parseList(strings.Join(numbers, ","))
		if err != nil || !slices.Equal(again, list) {
			t.Errorf("%q: %v, then %v, %v", text, list, again, err)
		}
	})
}

func FuzzParseMemTotal(f *testing.F) {
	for _, seed := range []string{"", "Node 0 MemTotal: 6777044 kB\n", "Node 0 MemTotal: 18446744073709551615 kB"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := parseMemTotal(text)
		if n < 0 || n%1024 != 0 || err != nil && n != 0 || n > 0 && !strings.Contains(text, "MemTotal:") {
			t.Errorf("%q: %d, %v", text, n, err)
		}
	})
}
