package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

// A trace is read and replayed; nothing is above the bound, which is what can be had with room
// for all.
func TestRun(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var trace bytes.Buffer
	next := 1000
	var chats [][]int32
	for range 400 { // conversations that go on now and then
		k := rng.IntN(30)
		if k >= len(chats) {
			chats = append(chats, []int32{0, int32(len(chats) + 1)})
			k = len(chats) - 1
		}
		for range 1 + rng.IntN(4) {
			chats[k] = append(chats[k], int32(next))
			next++
		}
		fmt.Fprintf(&trace, `{"timestamp": 1, "input_length": 5, "hash_ids": [%s]}`+"\n", strings.Trim(strings.Join(strings.Fields(fmt.Sprint(chats[k])), ","), "[]"))
	}
	path := filepath.Join(t.TempDir(), "chats.jsonl")
	testkit.OK(t, os.WriteFile(path, trace.Bytes(), 0o600))
	var out bytes.Buffer
	testkit.OK(t, run(&out, []string{path}))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 6 || !strings.Contains(lines[5], "100.0 %") {
		t.Errorf("%s", out.String())
	}

	requests := testkit.Must(read(path))(t)
	all, longest := size(requests)
	for _, blocks := range []int{longest, all / 8, all / 2, all} {
		s := testkit.Must(replay(requests, max(blocks, longest), 0))(t)
		if most := bound(requests, max(blocks, longest)); s.Hits() > most || blocks == all && s.Hits() != most {
			t.Errorf("%d of %d blocks: %v are there, and at most %v", blocks, all, s.Hits(), most)
		}
	}
}

func TestRefused(t *testing.T) {
	if err := run(&bytes.Buffer{}, nil); err == nil || !strings.Contains(err.Error(), "usage") {
		t.Error(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"none": "", "broken": "{\"hash_ids\": [1]}\n{", "another": "{}"} {
		path := filepath.Join(dir, name)
		testkit.OK(t, os.WriteFile(path, []byte(text), 0o600))
		if err := run(&bytes.Buffer{}, []string{path}); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
