package testkit

import "regexp"

// PTXEntry is a kernel in PTX.
type PTXEntry struct {
	ParamBytes int // of its parameters, each aligned to its size
	Body       string
}

var (
	ptxEntry = regexp.MustCompile(`(?s)\.visible \.entry (\w+)\((.*?)\)(.*?)\n}`)
	ptxParam = regexp.MustCompile(`\.param \.[a-z](\d+)`)
)

// PTXEntries are the kernels of a module by their names.
func PTXEntries(ptx string) map[string]PTXEntry {
	entries := map[string]PTXEntry{}
	for _, m := range ptxEntry.FindAllStringSubmatch(ptx, -1) {
		n := 0
		for _, p := range ptxParam.FindAllStringSubmatch(m[2], -1) {
			size := map[string]int{"8": 1, "16": 2, "32": 4, "64": 8}[p[1]]
			n = (n+size-1)/size*size + size
		}
		entries[m[1]] = PTXEntry{n, m[3]}
	}
	return entries
}
