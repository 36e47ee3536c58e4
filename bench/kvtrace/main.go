// Command kvtrace replays traces of requests to a language model on the books of package
// kvcache, and says how many of their blocks were there, beside the most that anybody could
// have known to keep.
//
//	go run ./bench/kvtrace conversation_trace.jsonl …
//
// A trace has a JSON document in each line, of which hash_ids are the blocks of the prompt, as
// Mooncake and Qwen publish them (Qin et al., Mooncake: Trading More Storage for Less
// Computation, 2025): equal ids are equal content behind equal content. Requests run one
// after the other. A block's last use is not known to the cache; the bound has a future to look
// into (Belady, A Study of Replacement Algorithms for a Virtual-Storage Computer, 1966).
package main

import (
	"bufio"
	"container/heap"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"github.com/pinion-gpu/pinion/internal/texttable"
	"github.com/pinion-gpu/pinion/kvcache"
)

func main() {
	flag.Parse()
	if err := run(os.Stdout, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "kvtrace:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, paths []string) error {
	if len(paths) == 0 {
		return fmt.Errorf("no trace; usage: go run ./bench/kvtrace FILE.jsonl …")
	}
	t := texttable.New("trace", "blocks on the device", "on the host", "there", "at most", "of that", "come back")
	for _, path := range paths {
		requests, err := read(path)
		if err != nil {
			return err
		}
		all, longest := size(requests)
		for _, c := range []struct{ device, host float64 }{{0.0625, 0}, {0.25, 0}, {0.0625, 0.25}, {0.25, 0.25}, {0.25, 0.75}} {
			device, host := max(longest, int(c.device*float64(all))), int(c.host*float64(all))
			s, err := replay(requests, device, host)
			if err != nil {
				return err
			}
			most := bound(requests, device+host)
			t.Add(filepath.Base(path), fmt.Sprint(device), fmt.Sprint(host), percent(s.Hits()), percent(most), percent(s.Hits()/most), percent(float64(s.In)/float64(max(s.HitTokens, 1))))
		}
	}
	return t.Write(w)
}

func percent(x float64) string {
	if math.IsNaN(x) {
		return "–"
	}
	return fmt.Sprintf("%.1f %%", 100*x)
}

// read reads the blocks of all requests.
func read(path string) (requests [][]int32, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for n := 1; lines.Scan(); n++ {
		var r struct {
			Blocks []int32 `json:"hash_ids"`
		}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		if r.Blocks == nil {
			return nil, fmt.Errorf("%s:%d: a request without hash_ids", path, n)
		}
		requests = append(requests, r.Blocks)
	}
	if len(requests) == 0 && lines.Err() == nil {
		return nil, fmt.Errorf("%s has no requests", path)
	}
	return requests, lines.Err()
}

// size is how many different blocks there are, and how many the longest request has.
func size(requests [][]int32) (all, longest int) {
	seen := map[int32]bool{}
	for _, r := range requests {
		longest = max(longest, len(r))
		for _, b := range r {
			seen[b] = true
		}
	}
	return len(seen), longest
}

// replay runs requests on a cache. A block stands for one token.
func replay(requests [][]int32, device, host int) (kvcache.Stats, error) {
	c, err := kvcache.New(kvcache.Options{BlockTokens: 1, Blocks: device, HostBlocks: host})
	if err != nil {
		return kvcache.Stats{}, err
	}
	for _, r := range requests {
		s, err := c.Open("", r)
		if err != nil {
			return kvcache.Stats{}, err
		}
		if err := s.Computed(len(r)); err != nil {
			return kvcache.Stats{}, err
		}
		s.Close()
		c.TakeCopies(nil)
	}
	return c.Stats(), nil
}

// bound is the part of blocks that were there if what is needed again latest always left.
func bound(requests [][]int32, blocks int) float64 {
	// When each block of each request is needed again.
	next := make([][]int, len(requests))
	last := map[int32]int{}
	for i := len(requests) - 1; i >= 0; i-- {
		next[i] = make([]int, len(requests[i]))
		for k, b := range requests[i] {
			next[i][k] = math.MaxInt
			if at, ok := last[b]; ok {
				next[i][k] = at
			}
		}
		for _, b := range requests[i] {
			last[b] = i
		}
	}
	kept, queue := map[int32]int{}, &uses{}
	asked, there := 0, 0
	for i, r := range requests {
		asked += len(r)
		for k, b := range r {
			if _, ok := kept[b]; !ok || k == len(r)-1 { // of the last, something is computed always
				break
			}
			there++
		}
		for k, b := range r {
			kept[b] = next[i][k]
			// Of the same time, what is behind others leaves first.
			heap.Push(queue, use{next[i][k], k, b})
		}
		// What leaves may be of this request itself, when it has been read.
		for len(kept) > blocks {
			u := heap.Pop(queue).(use)
			if kept[u.block] == u.next {
				delete(kept, u.block)
			}
		}
	}
	return float64(there) / float64(max(asked, 1))
}

// use is when a block is needed again, and where it was in the request before.
type use struct {
	next, position int
	block          int32
}

// uses has the latest in front.
type uses []use

func (u uses) Len() int { return len(u) }
func (u uses) Less(i, j int) bool {
	return u[i].next > u[j].next || u[i].next == u[j].next && u[i].position > u[j].position
}
func (u uses) Swap(i, j int) { u[i], u[j] = u[j], u[i] }
func (u *uses) Push(x any)   { *u = append(*u, x.(use)) }
func (u *uses) Pop() any {
	list := *u
	x := list[len(list)-1]
	*u = list[:len(list)-1]
	return x
}
