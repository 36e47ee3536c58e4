package shard

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

func TestZZProto(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Proto) }))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	// make sure the default transport has been used
	http.Get("http://127.0.0.1:1/")
	c := newClient(4)
	tr := c.Transport.(*http.Transport)
	cfg := tr.TLSClientConfig
	t.Log(cfg)
	tt := srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	if cfg == nil {
		tr.TLSClientConfig = srv.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	} else {
		cfg.RootCAs = tt
	}
	r, err := c.Get(srv.URL)
	if err != nil { t.Fatal(err) }
	b := make([]byte, 20)
	n, _ := r.Body.Read(b)
	t.Log(string(b[:n]))
}

func TestZZBacklog(t *testing.T) {
	srv, want := oneShard(t, 600)
	opts := options(t)
	opts.blockBytes = 4096
	opts.Connections = 2
	s := open(t, srv.URL+"/train.tar", opts)
	s.Close()
	os.RemoveAll(opts.Cache)
	x, _ := scanned(t, srv.files["train.tar"], cls)
	srv.set(func() { srv.files["train.tar.index"] = x.encode(cls.String()) })
	s = open(t, srv.URL+"/train.tar", opts)
	before := runtime.NumGoroutine()
	s.cache.mu.Lock()
	for i := range want {
		if _, err := s.Read(t.Context(), i, "jpg", nil); err != nil { t.Fatal(err) }
	}
	time.Sleep(100*time.Millisecond)
	t.Log(before, runtime.NumGoroutine(), s.Stats())
	s.cache.mu.Unlock()
}

func TestZZSidecarLabels(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	w, err := NewWriter(dir, WriterOptions{})
	if err != nil { t.Fatal(err) }
	w.Write("a", Part{"jpg", []byte("x")}, Part{"cls", []byte("1")})
	if err := w.Close(); err != nil { t.Fatal(err) }
	dir2 := filepath.Join(t.TempDir(), "d")
	w, _ = NewWriter(dir2, WriterOptions{})
	w.Write("a", Part{"jpg", []byte("x")}, Part{"cls", []byte("2")})
	w.Close()
	b, _ := os.ReadFile(dir2 + "/shard-000000.tar")
	time.Sleep(20*time.Millisecond)
	os.WriteFile(dir + "/shard-000000.tar", b, 0o644)
	s := open(t, dir, options(t))
	c, err := s.Read(t.Context(), 0, "cls", nil)
	t.Log(s.Label(0), string(c), err)
}
