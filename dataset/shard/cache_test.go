package shard

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

func newCache(t testing.TB, dir string, limit int64) *cache {
	t.Helper()
	c, err := openCache(dir, limit)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// block is content that differs from that of other numbers.
func block(number, bytes int) []byte {
	rng := rand.New(rand.NewPCG(uint64(number), 7))
	b := make([]byte, bytes)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

func blockName(number int) string { return fmt.Sprint(ownPrefix, "x-", number, blockSuffix) }

// cacheBytes returns the bytes of all files in a cache.
func cacheBytes(t testing.TB, c *cache) (total int64) {
	t.Helper()
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			total += info.Size()
		}
	}
	return total
}

func TestCacheBlocks(t *testing.T) {
	c := newCache(t, t.TempDir(), 1<<30)
	for number, size := range []int{1, pageBytes - 1, pageBytes, pageBytes + 1, 3*pageBytes + 17} {
		want := block(number, size)
		c.putBlock(blockName(number), want)
		for range 50 {
			at := rand.IntN(size)
			got := make([]byte, 1+rand.IntN(size-at))
			if !c.readBlock(blockName(number), int64(size), got, int64(at)) || !bytes.Equal(got, want[at:at+len(got)]) {
				t.Fatalf("%d bytes at %d of %d", len(got), at, size)
			}
		}
	}
	if c.readBlock(blockName(99), 1, make([]byte, 1), 0) {
		t.Error("a block that was never put is there")
	}
	var none *cache
	none.putBlock("x", block(0, 5))
	if none.has("x") || none.get("x") != nil || none.readBlock("x", 5, make([]byte, 5), 0) {
		t.Error("no cache has something")
	}
}

// TestCacheDamage: any wrong byte, and any cut, is noticed where it is read,
// and the block is removed.
func TestCacheDamage(t *testing.T) {
	c := newCache(t, t.TempDir(), 1<<30)
	const size = pageBytes + 100
	path := filepath.Join(c.dir, blockName(0))
	c.putBlock(blockName(0), block(0, size))
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	damage := map[string][]byte{"nothing": nil, "cut": good[:len(good)-1], "another block": nil}
	for _, at := range []int{0, pageBytes - 1, pageBytes, pageBytes + 3, pageBytes + 4, len(good) - 1} {
		bad := bytes.Clone(good)
		bad[at] ^= 1
		damage[fmt.Sprint("byte ", at)] = bad
	}
	c.putBlock(blockName(1), block(1, size))
	if damage["another block"], err = os.ReadFile(filepath.Join(c.dir, blockName(1))); err != nil {
		t.Fatal(err)
	}
	want := int64(0)
	for name, bad := range damage {
		write(t, path, bad)
		if c.readBlock(blockName(0), size, make([]byte, size), 0) {
			t.Errorf("%s: it was read", name)
		}
		if want++; c.has(blockName(0)) || c.repaired.Load() != want {
			t.Errorf("%s: it is still there, or %d are counted, want %d", name, c.repaired.Load(), want)
		}
	}
}

// TestCacheForgets: what was used longest ago goes first, and nothing that is
// not the cache's.
func TestCacheForgets(t *testing.T) {
	const size, limit = 1000, 10_500
	c := newCache(t, t.TempDir(), limit)
	now := time.Now()
	c.now = func() time.Time { return now }
	others := []string{"notes.txt", "part-00000.parquet", "train-000.tar.index", "x.block"}
	left := write(t, filepath.Join(c.dir, partPrefix+"left"), make([]byte, 50))
	fresh := write(t, filepath.Join(c.dir, partPrefix+"fresh"), make([]byte, 50))
	for path, age := range map[string]time.Duration{left: 2 * partAge, fresh: partAge / 2} {
		if err := os.Chtimes(path, now, now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range others {
		if err := os.Chtimes(write(t, filepath.Join(c.dir, name), make([]byte, 5000)), now, now.Add(-1000*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	c.shrink(0)
	for i := range 10 {
		c.putBlock(blockName(i), block(i, size))
		age := time.Duration(100-i) * time.Minute // 0 is the oldest
		if err := os.Chtimes(filepath.Join(c.dir, blockName(i)), now, now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	for _, i := range []int{0, 3} { // used again
		if !c.readBlock(blockName(i), size, make([]byte, 10), 5) {
			t.Fatalf("block %d is gone", i)
		}
	}
	c.putBlock(blockName(10), block(10, size))
	var have []int
	for i := range 11 {
		if c.has(blockName(i)) {
			have = append(have, i)
		}
	}
	if want := []int{0, 3, 4, 5, 6, 7, 8, 9, 10}; !slices.Equal(have, want) && !slices.Equal(have, append([]int{0, 3}, want[len(want)-7:]...)) {
		t.Errorf("left are %v, want %v", have, want)
	}
	present := map[string]bool{fresh: true, left: false}
	for _, name := range others {
		present[filepath.Join(c.dir, name)] = true
	}
	for path, want := range present {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
	c.putBlock(blockName(11), block(11, limit+1))
	if c.has(blockName(11)) {
		t.Error("a block larger than the cache is in it")
	}
}

// TestCacheShared: several processes that put and read at once stay near the
// limit, and what is read is right.
func TestCacheShared(t *testing.T) {
	const processes, limit, size = 4, 64 << 10, 1024
	dir := t.TempDir()
	var wg sync.WaitGroup
	for p := range processes {
		c := newCache(t, dir, limit)
		for w := range 2 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(p), uint64(w)))
				for range 300 {
					n := rng.IntN(200)
					got, want := make([]byte, size), block(n, size)
					if !c.readBlock(blockName(n), size, got, 0) {
						c.putBlock(blockName(n), want)
					} else if !bytes.Equal(got, want) {
						t.Errorf("block %d is another", n)
					}
				}
				if c.repaired.Load() > 0 || c.failed.Load() > 0 {
					t.Errorf("%d blocks were damaged, %d could not be written", c.repaired.Load(), c.failed.Load())
				}
			})
		}
	}
	wg.Wait()
	c := newCache(t, dir, limit)
	if total := cacheBytes(t, c); total > limit || total == 0 {
		t.Errorf("%d bytes, the limit is %d", total, limit)
	}
}

func TestCacheThatCannotBe(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "file"), nil)
	dir, want := writeShards(t, 1, 3)
	if _, err := Open(t.Context(), dir, Options{Cache: filepath.Join(file, "cache")}); err == nil {
		t.Error("a cache below a file")
	}
	t.Setenv("XDG_CACHE_HOME", file)
	t.Setenv("HOME", file)
	check(t, open(t, dir, Options{}), want) // nothing is kept
}

// TestCacheTooSlow: blocks do not pile up before a cache that takes none for a
// while.
func TestCacheTooSlow(t *testing.T) {
	srv, want := oneShard(t, 300)
	x, _ := scanned(t, srv.files["train.tar"], cls)
	srv.set(func() { srv.files["train.tar.index"] = x.encode(cls.String()) })
	s := open(t, srv.URL+"/train.tar", options(t))
	before := s.Stats().Fetched
	s.cache.mu.Lock() // which each write takes
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range want {
			if content, err := s.Read(t.Context(), i, "jpg", nil); err != nil || string(content) != want[i].content {
				t.Errorf("sample %d: %v", i, err)
			}
		}
	}()
	testkit.Eventually(t, "blocks on their way into the cache", func() bool { return s.Stats().Fetched-before >= memoryBlocks })
	time.Sleep(100 * time.Millisecond) // for more to come, if any do
	if n := s.Stats().Fetched - before; n != memoryBlocks {
		t.Errorf("%d blocks are on their way into the cache, want %d", n, memoryBlocks)
	}
	s.cache.mu.Unlock()
	<-done
}
