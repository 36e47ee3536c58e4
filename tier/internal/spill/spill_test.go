package spill_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/pinion-gpu/pinion/internal/errs"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/tier/internal/spill"
)

var ctx = context.Background()

const mib = 1 << 20

func open(t testing.TB, o spill.Options) *spill.Store {
	t.Helper()
	s, err := spill.Open(o)
	testkit.OK(t, err)
	t.Cleanup(func() {
		testkit.OK(t, s.Close())
		for _, f := range o.Folders {
			if left, _ := filepath.Glob(filepath.Join(f, "*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		}
	})
	return s
}

func pages(t testing.TB, n int64) []byte {
	t.Helper()
	b, err := pagemem.Map(pagemem.RoundUp(n))
	testkit.OK(t, err)
	t.Cleanup(func() { testkit.OK(t, pagemem.Unmap(b)) })
	return b[:n]
}

// Random pieces come and go, and keep what was written to them.
func TestPieces(t *testing.T) {
	for _, folders := range []int{1, 3} {
		for _, cached := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d folders, cached %v", folders, cached), func(t *testing.T) {
				testPieces(t, folders, cached)
			})
		}
	}
}

func testPieces(t *testing.T, folders int, cached bool) {
	o := spill.Options{Bytes: 36 * mib, Checksums: true, Cached: cached}
	for range folders {
		o.Folders = append(o.Folders, t.TempDir())
	}
	s := open(t, o)
	r := rand.New(rand.NewPCG(1, uint64(folders)))
	type held struct {
		p    *spill.Piece
		n    int64
		seed uint64
	}
	var list []held
	var used int64
	b := pages(t, 9*mib)
	full := 0
	rounds := 120
	if testing.Short() {
		rounds = 40
	}
	for range rounds {
		n := 1 + r.Int64N(9*mib)
		p, err := s.Alloc(n)
		if err == nil {
			h := held{p, n, r.Uint64()}
			copy(b, testkit.RandomBytes(int(n), h.seed))
			testkit.OK(t, s.Write(ctx, p, places(r, b[:n])))
			list = append(list, h)
			used += (n + 4095) / 4096 * 4096
		} else if all, now := s.Usage(); !errors.Is(err, spill.ErrFull) || all-now >= n {
			t.Fatalf("%v with %d of %d used, want %d", err, now, all, n)
		} else {
			full++
		}
		if _, now := s.Usage(); now != used {
			t.Fatalf("%d used, want %d", now, used)
		}
		if len(list) == 0 || r.IntN(3) > 0 && err == nil {
			continue
		}
		i := r.IntN(len(list))
		h := list[i]
		testkit.OK(t, s.Read(ctx, h.p, places(r, b[:h.n])))
		if !bytes.Equal(b[:h.n], testkit.RandomBytes(int(h.n), h.seed)) {
			t.Fatalf("a piece of %d bytes changed", h.n)
		}
		s.Free(h.p)
		used -= (h.n + 4095) / 4096 * 4096
		list = append(list[:i], list[i+1:]...)
	}
	if full == 0 {
		t.Error("the store was never full")
	}
	if len(s.Notes()) > 0 && !cached {
		t.Logf("not past the cache: %v", s.Notes())
	}
	for _, h := range list {
		s.Free(h.p)
	}
	if p, err := s.Alloc(36 * mib); err != nil {
		t.Errorf("the room did not come together again: %v", err)
	} else {
		s.Free(p)
	}
}

// places cuts memory into places of whole pages, some of them adjacent.
func places(r *rand.Rand, b []byte) (list [][]byte) {
	for r.IntN(4) > 0 {
		if n := 4096 * (1 + r.IntN(1024)); n < len(b) {
			list, b = append(list, b[:n]), b[n:]
		}
	}
	return append(list, b)
}

func TestDamage(t *testing.T) {
	dir := t.TempDir()
	s := open(t, spill.Options{Folders: []string{dir}, Bytes: 8 * mib, Checksums: true})
	p, err := s.Alloc(6 * mib)
	testkit.OK(t, err)
	b := pages(t, 6*mib)
	testkit.OK(t, s.Write(ctx, p, [][]byte{b}))
	other, err := s.Alloc(mib)
	testkit.OK(t, err)
	testkit.OK(t, s.Write(ctx, other, [][]byte{b[:mib]}))
	s.Smash(p, 5*mib+17)
	testkit.WantError(t, "a damaged piece", s.Read(ctx, p, [][]byte{b}), errs.ErrDamaged, "2097152 bytes at 4194304", dir)
	testkit.OK(t, s.Read(ctx, other, [][]byte{b[:mib]}))
}

func TestBad(t *testing.T) {
	dir := t.TempDir()
	for _, o := range []spill.Options{{}, {Folders: []string{dir}}, {Bytes: 1}, {Folders: []string{dir}, Bytes: -1}} {
		_, err := spill.Open(o)
		testkit.WantError(t, "options", err, errs.ErrArgument)
	}
	_, err := spill.Open(spill.Options{Folders: []string{filepath.Join(dir, "none")}, Bytes: mib})
	testkit.WantError(t, "no folder", err, os.ErrNotExist, "none")
	_, err = spill.Open(spill.Options{Folders: []string{dir}, Bytes: 1 << 60})
	if err == nil {
		t.Error("a disk has room for everything")
	}
	s := open(t, spill.Options{Folders: []string{dir}, Bytes: mib})
	p, err := s.Alloc(5000)
	testkit.OK(t, err)
	for name, b := range map[string][][]byte{
		"no memory":           nil,
		"short memory":        {make([]byte, 4999)},
		"long memory":         {make([]byte, 4096), make([]byte, 4096)},
		"memory without room": {make([]byte, 5000)[:5000:5000]},
		"no whole pages":      {make([]byte, 1000), make([]byte, 4000, 8192)},
	} {
		testkit.WantError(t, name, s.Write(ctx, p, b), errs.ErrArgument)
		testkit.WantError(t, name, s.Read(ctx, p, b), errs.ErrArgument)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	testkit.WantError(t, "ended", s.Write(ended, p, [][]byte{pages(t, 5000)}), context.Canceled)
}

// A process that is killed leaves nothing, and what one left is removed.
func TestKilled(t *testing.T) {
	if dir := os.Getenv("PINION_TEST_SPILL"); dir != "" {
		s, err := spill.Open(spill.Options{Folders: []string{dir}, Bytes: 8 * mib})
		testkit.OK(t, err)
		p, err := s.Alloc(mib)
		testkit.OK(t, err)
		testkit.OK(t, s.Write(ctx, p, [][]byte{pages(t, mib)}))
		self, err := os.FindProcess(os.Getpid())
		testkit.OK(t, err)
		testkit.OK(t, self.Kill())
		select {}
	}
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
	cmd.Env = append(os.Environ(), "PINION_TEST_SPILL="+dir)
	if err := cmd.Run(); err == nil {
		t.Fatal("the child was not killed")
	}
	stale := testkit.WriteFile(t, "left", dir, "pinion-tier-1-2")
	other := testkit.WriteFile(t, "mine", t.TempDir(), "pinion-notes")
	s, err := spill.Open(spill.Options{Folders: []string{dir}, Bytes: mib})
	testkit.OK(t, err)
	if _, err := os.Stat(stale); !errors.Is(err, os.ErrNotExist) || s.Removed() == 0 {
		t.Errorf("%v, %d removed", err, s.Removed())
	}
	testkit.OK(t, s.Close())
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := os.Stat(other); err != nil {
		t.Error(err)
	}
}

// Files that are in use are left alone.
func TestInUse(t *testing.T) {
	dir := t.TempDir()
	name := testkit.WriteFile(t, "", dir, "pinion-tier-held")
	hold := spill.Hold(t, name)
	defer hold()
	s, err := spill.Open(spill.Options{Folders: []string{dir}, Bytes: mib})
	testkit.OK(t, err)
	defer s.Close()
	if _, err := os.Stat(name); err != nil || s.Removed() != 0 {
		t.Errorf("%v, %d removed", err, s.Removed())
	}
}

// Stores that are opened in one folder at the same time remove each other's names,
// and go on.
func TestOpenTogether(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				s, err := spill.Open(spill.Options{Folders: []string{dir}, Bytes: mib})
				if err != nil {
					t.Error(err)
					return
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}
