package launch

import (
	"strings"
	"testing"
)

// The first hosts are those that scontrol show hostnames prints.
func TestFirstHost(t *testing.T) {
	for list, want := range map[string]string{
		"gpu[01-03,07],login1": "gpu01",
		"a[1-2]b[3-4]":         "a1b3",
		"a[1-2][3-4]":          "a13",
		"x[009-011]":           "x009",
		"x[9-11]":              "x9",
		"gpu[1-3]x[2]":         "gpu1x2",
		"n[7,1-3]-ib0":         "n7-ib0",
		"host.a.b,other":       "host.a.b",
		"a":                    "a",
		"[1-2]":                "1",
	} {
		if got, err := firstHost(list); err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", list, got, err, want)
		}
	}
	for _, list := range []string{"", ",", ",a", "a[1", "a[]", "a[1-]", "a[-1]", "a[1-2", "a]1", "a[3-1]", "a[1,,2]", "a[1-2-3]", "a[+1]", "a[x]", "a[[1]]", "a[0-10:5]", "a[99999999999]"} {
		if got, err := firstHost(list); err == nil {
			t.Errorf("%q: %q", list, got)
		}
	}
}

func TestTasksOf(t *testing.T) {
	for list, want := range map[string][]int{
		"1":           {1},
		"2(x3),1":     {2, 2, 2, 1},
		"3,1(x2),4":   {3, 1, 1, 4},
		"8(x1)":       {8},
		"1(x2),1(x2)": {1, 1, 1, 1},
	} {
		for node, tasks := range want {
			if got, err := tasksOf(list, node); err != nil || got != tasks {
				t.Errorf("%q, node %d: %d, %v, want %d", list, node, got, err, tasks)
			}
		}
		if got, err := tasksOf(list, len(want)); err == nil {
			t.Errorf("%q has a node %d: %d", list, len(want), got)
		}
	}
	for _, list := range []string{"", ",", "a", "1(x", "1(x)", "1(x0)", "1(xa)", "1(2)", "(x2)", "-1", "1(x-1)", "1(x2)3", "99999999999"} {
		if got, err := tasksOf(list, 0); err == nil {
			t.Errorf("%q: %d", list, got)
		}
	}
}

// What is taken for a name of a host has neither brackets nor commas.
func FuzzFirstHost(f *testing.F) {
	for _, list := range []string{"gpu[01-03,07],login1", "a[1-2]b[3-4]", "a]", "[1", "", "a[1-"} {
		f.Add(list)
	}
	f.Fuzz(func(t *testing.T, list string) {
		host, err := firstHost(list)
		if (err == nil) != (host != "") || strings.ContainsAny(host, "[],") || len(host) > len(list) {
			t.Errorf("%q: %q, %v", list, host, err)
		}
	})
}

// A list without its first node gives the same from one node on.
func FuzzTasksOf(f *testing.F) {
	for _, list := range []string{"2(x3),1", "1", "1(x", "", "4,(x2)"} {
		f.Add(list, 1)
	}
	f.Fuzz(func(t *testing.T, list string, node int) {
		tasks, err := tasksOf(list, node)
		if tasks < 0 || err != nil && tasks != 0 {
			t.Errorf("%q, node %d: %d, %v", list, node, tasks, err)
		}
		if node < 0 || node > 1<<20 {
			return
		}
		again, failed := tasksOf("7,"+list, node+1)
		if again != tasks || (err == nil) != (failed == nil) {
			t.Errorf("%q, node %d: %d, %v, and %d, %v one node later", list, node, tasks, err, again, failed)
		}
	})
}
