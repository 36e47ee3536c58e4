package numa

import (
	"fmt"
	"io/fs"
	"math"
	"strconv"
	"strings"
)

// maxID is above every CPU and node number: the kernel has at most 8192 CPUs
// and 1024 nodes.
const maxID = 8192

// read reads the nodes from a tree like /sys/devices/system/node, with those
// of their CPUs that may be used.
func read(root fs.FS, may func(cpu int) bool) ([]Node, error) {
	online, err := readFile(root, "online", parseList)
	if err != nil {
		return nil, err
	}
	nodes := make([]Node, 0, len(online))
	for _, id := range online {
		dir := "node" + strconv.Itoa(id)
		cpus, err := readFile(root, dir+"/cpulist", parseList)
		if err != nil {
			return nil, err
		}
		memory, err := readFile(root, dir+"/meminfo", parseMemTotal)
		if err != nil {
			return nil, err
		}
		node := Node{ID: id, MemoryBytes: memory}
		for _, cpu := range cpus {
			if may(cpu) {
				node.CPUs = append(node.CPUs, cpu)
			}
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}

func readFile[T any](root fs.FS, name string, parse func(string) (T, error)) (T, error) {
	var none T
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return none, err
	}
	v, err := parse(string(text))
	if err != nil {
		return none, fmt.Errorf("%s: %w", name, err)
	}
	return v, nil
}

// parseList parses the kernel's list format, "0-3,8": numbers and ranges in
// ascending order, or nothing.
func parseList(text string) ([]int, error) {
	text = strings.TrimSuffix(text, "\n")
	if text == "" {
		return nil, nil
	}
	var list []int
	next := 0 // the lowest number that may follow
	for part := range strings.SplitSeq(text, ",") {
		low, high, isRange := strings.Cut(part, "-")
		first, err := parseID(low)
		if err != nil {
			return nil, err
		}
		last := first
		if isRange {
			if last, err = parseID(high); err != nil {
				return nil, err
			}
		}
		if first < next || last < first {
			return nil, fmt.Errorf("list out of order at %q", part)
		}
		for id := first; id <= last; id++ {
			list = append(list, id)
		}
		next = last + 1
	}
	return list, nil
}

func parseID(text string) (int, error) {
	id, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0, err
	}
	if id >= maxID {
		return 0, fmt.Errorf("%d is out of range", id)
	}
	return int(id), nil
}

// parseMemTotal finds "Node 0 MemTotal: 6777044 kB" in a node's meminfo and
// returns it in bytes.
func parseMemTotal(text string) (int64, error) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 5 || f[2] != "MemTotal:" || f[4] != "kB" {
			continue
		}
		kib, err := strconv.ParseUint(f[3], 10, 64)
		if err != nil {
			return 0, err
		}
		if kib > math.MaxInt64/1024 {
			return 0, fmt.Errorf("%d KiB of memory are out of range", kib)
		}
		return int64(kib) * 1024, nil
	}
	return 0, fmt.Errorf("no MemTotal in %d bytes", len(text))
}
