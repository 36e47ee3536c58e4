package timeline

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
)

// view is what is recorded at one moment.
type view struct {
	records     []record
	rows        []rowKey
	names       []string
	dropped     int64
	untimed     int64
	lost        int64 // records of other libraries' work
	othersError string
	errors      map[string]int64 // of the clocks of devices
	calls       map[string]bool  // groups of the calls to devices
}

func (r *Recording) view() *view {
	v := &view{untimed: r.Untimed(), errors: map[string]int64{}, calls: map[string]bool{}}
	if r.others != nil {
		v.lost = r.others.lost()
	} else if !errors.Is(r.othersError, errNotAsked) {
		v.othersError = strings.TrimPrefix(r.othersError.Error(), "cupti: ")
	}
	r.flush()
	r.mu.Lock()
	defer r.mu.Unlock()
	v.records = r.store.all()
	v.rows, v.names, v.dropped = r.store.rows.list, r.store.names.list, r.store.dropped
	for id, bound := range r.clocks {
		v.errors[id] = bound
		v.calls[callsTo(id)] = true
	}
	return v
}

// callsTo is the group of the calls to a device.
func callsTo(id string) string { return "calls to " + id }

// compareGroups orders the groups of a timeline: from the loader down to the devices.
func compareGroups(a, b string) int {
	return cmp.Or(cmp.Compare(groupRank(a), groupRank(b)), cmp.Compare(a, b))
}

var groupOrder = []string{"loader", "tier", "transfer", "calls"}

func groupRank(group string) int {
	first, _, _ := strings.Cut(group, " ")
	if i := slices.Index(groupOrder, first); i >= 0 {
		return i
	}
	return len(groupOrder)
}

// compareRows orders rows by name, and by the number behind it.
func compareRows(a, b string) int {
	nameA, nameB := withoutNumber(a), withoutNumber(b)
	return cmp.Or(cmp.Compare(nameA, nameB), cmp.Compare(numberOf(a, nameA), numberOf(b, nameB)))
}

func numberOf(row, name string) int {
	n, _ := strconv.Atoi(strings.TrimSpace(row[len(name):]))
	return n
}
