package shard

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

// TestOneRequestForAll: many readers of one block.
func TestOneRequestForAll(t *testing.T) {
	srv, want := oneShard(t, 3)
	opts := options(t)
	opts.blockBytes = 1 << 20
	s := open(t, srv.URL+"/train.tar", opts)
	s.Close()
	opts.Cache = t.TempDir()
	x, _ := scanned(t, srv.files["train.tar"], cls)
	srv.set(func() { srv.files["train.tar.index"] = x.encode(cls.String()) })
	s = open(t, srv.URL+"/train.tar", opts)
	arrived, release := make(chan bool, 100), make(chan bool)
	srv.set(func() {
		srv.fault = func(int, http.ResponseWriter, *http.Request) bool {
			arrived <- true
			<-release
			return false
		}
	})
	before := srv.requests.Load()
	// One reader who gives up takes nothing from the others.
	ctx, cancel := context.WithCancel(t.Context())
	var first, others sync.WaitGroup
	first.Go(func() {
		if _, err := s.Read(ctx, 0, "jpg", nil); !errors.Is(err, context.Canceled) {
			t.Errorf("the reader who gave up: %v", err)
		}
	})
	<-arrived
	for i := range 20 {
		others.Go(func() {
			content, err := s.Read(t.Context(), i%3, "jpg", nil)
			if err != nil || string(content) != want[i%3].content {
				t.Errorf("reader %d: %v", i, err)
			}
		})
	}
	waiting(t, s, 21)
	cancel()
	first.Wait()
	close(release)
	others.Wait()
	if n := srv.requests.Load() - before; n != 1 {
		t.Errorf("%d requests", n)
	}
}

// waiting returns when so many readers wait for a block.
func waiting(t *testing.T, s *Set, readers int) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("%d readers wait", readers), func() bool {
		s.blocks.mu.Lock()
		defer s.blocks.mu.Unlock()
		n := 0
		for _, f := range s.blocks.flights {
			n += f.waiters
		}
		return n == readers
	})
}

// TestContexts: a reader stops at once, whatever the server does, and so does
// Close.
func TestContexts(t *testing.T) {
	srv, _ := oneShard(t, 20)
	x, _ := scanned(t, srv.files["train.tar"], cls)
	srv.files["train.tar.index"] = x.encode(cls.String())
	opts := options(t)
	opts.Timeout = time.Hour
	s := open(t, srv.URL+"/train.tar", opts)
	srv.set(func() {
		srv.fault = func(_ int, w http.ResponseWriter, r *http.Request) bool {
			<-r.Context().Done()
			return true
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := s.Read(ctx, 5, "jpg", nil)
		done <- err
	}()
	waiting(t, s, 1)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	go func() {
		_, err := s.Read(context.Background(), 5, "jpg", nil)
		done <- err
	}()
	waiting(t, s, 1)
	s.Close()
	if err := <-done; !errors.Is(err, fs.ErrClosed) {
		t.Error(err)
	}
	if _, err := s.Read(t.Context(), 5, "jpg", nil); !errors.Is(err, fs.ErrClosed) {
		t.Error(err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Open(ctx, srv.URL+"/train.tar", opts); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Open: %v", err)
	}
}

// TestCloseLeavesNothing: no goroutine, and so no connection.
func TestCloseLeavesNothing(t *testing.T) {
	srv, want := oneShard(t, 20)
	before := runtime.NumGoroutine()
	for range 3 {
		s := open(t, srv.URL+"/train.tar", options(t))
		check(t, s, want)
		s.Close()
	}
	testkit.Eventually(t, "as many goroutines as before", func() bool { return runtime.NumGoroutine() <= before })
}

// TestConnections: no more requests at once than asked for.
func TestConnections(t *testing.T) {
	srv, want := oneShard(t, 60)
	var now, most atomic.Int64
	srv.fault = func(int, http.ResponseWriter, *http.Request) bool {
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		time.Sleep(2 * time.Millisecond)
		now.Add(-1)
		return false
	}
	opts := options(t)
	opts.NoCache, opts.Connections = true, 3
	s := open(t, srv.URL+"/train.tar", opts)
	var readers sync.WaitGroup
	for i := range 60 {
		readers.Go(func() {
			content, err := s.Read(t.Context(), i, "jpg", nil)
			if err != nil || string(content) != want[i].content {
				t.Errorf("sample %d: %v", i, err)
			}
		})
	}
	readers.Wait()
	if most.Load() > 3 {
		t.Errorf("%d requests at once", most.Load())
	}
}

// TestReadAhead: a shard that is read in order is fetched ahead, and the next
// shard too.
func TestReadAhead(t *testing.T) {
	files := map[string][]byte{}
	for s := range 2 {
		shard := pack(t, numbered(s*10, 10)...)
		x, _ := scanned(t, shard, cls)
		files[fmt.Sprintf("%d.tar", s)], files[fmt.Sprintf("%d.tar.index", s)] = shard, x.encode(cls.String())
	}
	srv := newServer(t, files)
	s := open(t, srv.URL+"/{0..1}.tar", options(t))
	arrives := func(shard, block int) {
		t.Helper()
		id := blockID{s.shards[shard].place.(*remote), int64(block)}
		testkit.Eventually(t, fmt.Sprintf("block %d of shard %d arrives", block, shard), func() bool { return s.cache.has(id.name()) })
	}
	if _, err := s.Read(t.Context(), 0, "jpg", nil); err != nil {
		t.Fatal(err)
	}
	arrives(0, 1)
	arrives(0, 2)
	for i := range 10 {
		if _, err := s.Read(t.Context(), i, "jpg", nil); err != nil {
			t.Fatal(err)
		}
	}
	arrives(1, 0)
}

// TestLargeMember: its blocks are fetched side by side, so that no request
// waits for the answer of another.
func TestLargeMember(t *testing.T) {
	content := string(block(1, 10*4096))
	shard := pack(t, entry{name: "1.bin", content: content})
	x, _ := scanned(t, shard, cls)
	srv := newServer(t, map[string][]byte{"x.tar": shard, "x.tar.index": x.encode(cls.String())})
	opts := options(t)
	opts.NoCache = true
	s := open(t, srv.URL+"/x.tar", opts)
	all := make(chan bool)
	var waits atomic.Int64
	srv.set(func() {
		srv.fault = func(_ int, _ http.ResponseWriter, r *http.Request) bool {
			if r.Header.Get("Range") == "bytes=0-4095" {
				return false
			}
			if waits.Add(1) == atOnce-1 {
				close(all)
			}
			select {
			case <-all:
			case <-r.Context().Done():
			}
			return false
		}
	})
	got, err := s.Read(t.Context(), 0, "bin", nil)
	if err != nil || string(got) != content {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}
