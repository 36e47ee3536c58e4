package shard

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// server serves shards from memory, and does what a test wants for any
// request.
type server struct {
	*httptest.Server
	requests atomic.Int64 // of ranges

	mu    sync.Mutex
	files map[string][]byte
	tag   string
	// fault may answer a request for a range in its own way; it reports
	// whether it did.
	fault func(n int, w http.ResponseWriter, r *http.Request) bool
}

func newServer(t testing.TB, files map[string][]byte) *server {
	s := &server{files: files, tag: `"1"`}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// oneShard serves one shard of samples, and returns them.
func oneShard(t testing.TB, samples int) (*server, []entry) {
	list := numbered(0, samples)
	var want []entry
	for i := 0; i < len(list); i += 2 {
		want = append(want, list[i])
	}
	return newServer(t, map[string][]byte{"train.tar": pack(t, list...)}), want
}

// set changes what the server does.
func (s *server) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	name := path.Base(r.URL.Path)
	s.mu.Lock()
	content, ok := s.files[name]
	tag, fault := s.tag, s.fault
	s.mu.Unlock()
	if !ok {
		http.NotFound(w, r)
		return
	}
	if r.Header.Get("Range") != "" {
		n := int(s.requests.Add(1))
		if fault != nil && fault(n, w, r) {
			return
		}
	}
	if tag != "" {
		w.Header().Set("ETag", tag)
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

func TestServer(t *testing.T) {
	dir := map[string][]byte{}
	var want []entry
	for s := range 5 {
		list := numbered(s*30, 30)
		dir[fmt.Sprintf("train-%03d.tar", s)] = pack(t, list...)
		for i := 0; i < len(list); i += 2 {
			want = append(want, list[i])
		}
	}
	srv := newServer(t, dir)
	opts := options(t)
	location := srv.URL + "/data/train-{000..004}.tar?signature=secret"
	cold := open(t, location, opts)
	check(t, cold, want)
	if name := cold.Name(31); name != srv.URL+"/data/train-001.tar/c1/00031" || cold.Label(31) != 1 {
		t.Errorf("sample 31 is %s with label %d", name, cold.Label(31))
	}
	cold.Close() // all is written

	before := srv.requests.Load()
	warm := open(t, location, opts)
	check(t, warm, want)
	if asked := srv.requests.Load() - before; asked != 5 {
		t.Errorf("with all in the cache, %d requests, want one for the version of each shard", asked)
	}
	if st := warm.Stats(); st.Fetched != 0 || st.FromCache == 0 {
		t.Errorf("with all in the cache: %+v", st)
	}

	signed := open(t, strings.Replace(location, "secret", "another", 1), opts)
	check(t, signed, want)
	if st := signed.Stats(); st.Fetched != 0 {
		t.Errorf("with another signature: %+v", st)
	}

	opts.Cache, opts.CacheBytes = t.TempDir(), 3*5000
	check(t, open(t, location, opts), want)
	opts = options(t)
	opts.NoCache = true
	check(t, open(t, location, opts), want)
}

// TestServerOfHTTP2: the default client speaks HTTP/1.1, also with a server that
// would rather speak HTTP/2.
func TestServerOfHTTP2(t *testing.T) {
	shard := pack(t, numbered(0, 3)...)
	var proto atomic.Value
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proto.Store(r.Proto)
		w.Header().Set("ETag", `"1"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(shard))
	}))
	srv.EnableHTTP2 = true
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	defer srv.Close()
	opts := options(t)
	opts.Client, opts.Retries = newClient(2), -1
	transport := opts.Client.Transport.(*http.Transport)
	if transport.TLSClientConfig == nil {
		transport.TLSClientConfig = new(tls.Config)
	}
	transport.TLSClientConfig.RootCAs = srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	defer transport.CloseIdleConnections()
	if s := open(t, srv.URL+"/train.tar", opts); s.Len() != 3 || proto.Load() != "HTTP/1.1" {
		t.Errorf("%d samples by %v", s.Len(), proto.Load())
	}
}

func TestOpenErrors(t *testing.T) {
	srv, _ := oneShard(t, 3)
	srv.files["zipped.tar.gz"] = []byte("\x1f\x8b" + strings.Repeat("x", 2000))
	srv.files["empty.tar"] = pack(t)
	srv.files["page.tar"] = []byte("<html>" + strings.Repeat(" ", 2000))
	gone := httptest.NewServer(nil)
	gone.Close()
	for location, c := range map[string]struct {
		err  error
		text string
	}{
		srv.URL + "/missing.tar":   {fs.ErrNotExist, "/missing.tar: file does not exist: the server answered 404"},
		srv.URL + "/zipped.tar.gz": {ErrFormat, "gzip -d"},
		srv.URL + "/empty.tar":     {ErrEmpty, "no samples in 1 shards"},
		srv.URL + "/page.tar":      {ErrFormat, "not a tar"},
		gone.URL + "/train.tar":    {ErrUnavailable, "after 3 tries"},
		"http://%zz/":              {ErrArgument, "not a URL"},
		"/nowhere/x.tar":           {fs.ErrNotExist, "/nowhere/x.tar"},
	} {
		opts := options(t)
		opts.Retries = 2
		if _, err := Open(t.Context(), location, opts); !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", location, err)
		}
	}
	for _, opts := range []Options{{Retries: -2}, {CacheBytes: -1}, {Timeout: -1}, {Connections: -1}, {MaxMemberBytes: -1}} {
		if _, err := Open(t.Context(), srv.URL+"/train.tar", opts); !errors.Is(err, ErrArgument) {
			t.Errorf("%+v: %v", opts, err)
		}
	}
}

// TestServerWithoutRanges also has no version.
func TestServerWithoutRanges(t *testing.T) {
	shard := pack(t, numbered(0, 3)...)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(shard) }))
	defer srv.Close()
	if _, err := Open(t.Context(), srv.URL+"/x.tar", options(t)); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "must support range requests") {
		t.Error(err)
	}
}

// TestIndexWithoutEnd: of an index that a server sends, no more is read than
// its head announces, and nothing where that cannot be, whatever size the
// server says the shard has.
func TestIndexWithoutEnd(t *testing.T) {
	for name, head := range map[string][]byte{
		"of no members":   (&index{size: 1 << 50}).encode(cls.String())[:indexHeadBytes],
		"larger than any": append([]byte(indexMagic), bytes.Repeat([]byte{0xff}, indexHeadBytes-len(indexMagic))...),
	} {
		var sent atomic.Int64
		gone := make(chan struct{})
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasSuffix(r.URL.Path, IndexSuffix) {
				w.Header().Set("Content-Range", fmt.Sprintf("bytes 0-511/%d", int64(1)<<50))
				w.WriteHeader(http.StatusPartialContent)
				w.Write(make([]byte, 512))
				return
			}
			defer close(gone)
			n, err := w.Write(head)
			for chunk := make([]byte, 1<<16); err == nil && sent.Load() < 256<<20; {
				sent.Add(int64(n))
				n, err = w.Write(chunk)
			}
		}))
		defer srv.Close()
		opts := options(t)
		opts.blockBytes, opts.Retries = 512, -1
		if _, err := Open(t.Context(), srv.URL+"/x.tar", opts); err == nil {
			t.Errorf("%s: a shard", name)
		}
		<-gone
		if sent.Load() > 64<<20 { // what the network's buffers hold, and more
			t.Errorf("%s: %d bytes of an index were read", name, sent.Load())
		}
	}
}

// TestQueries: two files whose URLs differ in the query are two, even where
// size and ETag are the same.
func TestQueries(t *testing.T) {
	srv, _ := oneShard(t, 1)
	of := func(id string) []byte { return pack(t, entry{name: "1.jpg", content: id}) }
	inner := srv.Config.Handler
	srv.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		srv.set(func() { srv.files["get"] = of(r.URL.Query().Get("id")) })
		inner.ServeHTTP(w, r)
	})
	opts := options(t)
	for _, id := range []string{"a", "b", "a"} {
		check(t, open(t, srv.URL+"/get?id="+id, opts), []entry{{name: "1.jpg", content: id}})
	}
}

// TestSecrets: the password and the signature of a URL are in no file of the
// cache, whatever the server tells versions apart by, and in no error.
func TestSecrets(t *testing.T) {
	srv, _ := oneShard(t, 3)
	location := strings.Replace(srv.URL, "http://", "http://user:secret@", 1)
	for _, tag := range []string{`"1"`, `W/"1"`} {
		srv.set(func() { srv.tag = tag })
		opts := options(t)
		open(t, location+"/train.tar?signature=secret", opts).Close()
		files, err := filepath.Glob(filepath.Join(opts.Cache, "*"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%d files in the cache, %v", len(files), err)
		}
		for _, f := range files {
			if content, err := os.ReadFile(f); err != nil || bytes.Contains(content, []byte("secret")) {
				t.Errorf("%s holds the secret, or %v", f, err)
			}
		}
	}
	for _, bad := range []string{"{0..5.tar", "{5..0}.tar", "{a..b}.tar", "{0..99999}{0..99999}.tar", "missing.tar", "%zz"} {
		_, err := Open(t.Context(), location+"/train-"+bad+"?signature=secret", options(t))
		if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(bad, "%") && !strings.Contains(err.Error(), srv.Listener.Addr().String()+"/train-"+bad) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// TestServerWithoutVersions: nothing of such a shard is used again.
func TestServerWithoutVersions(t *testing.T) {
	srv, want := oneShard(t, 10)
	srv.tag = ""
	opts := options(t)
	check(t, open(t, srv.URL+"/train.tar", opts), want)
	check(t, open(t, srv.URL+"/train.tar", opts), want)
	srv.set(func() { srv.files["train.tar"] = pack(t, want[:4]...) })
	check(t, open(t, srv.URL+"/train.tar", opts), want[:4])
}

// TestShardChanges: between openings the new one is read, while it is open it
// is an error.
func TestShardChanges(t *testing.T) {
	srv, want := oneShard(t, 20)
	opts := options(t)
	s := open(t, srv.URL+"/train.tar", opts)
	s.Close()
	other := pack(t, numbered(100, 20)...)
	srv.set(func() { srv.files["train.tar"], srv.tag = other, `"2"` })
	s = open(t, srv.URL+"/train.tar", opts)
	content, err := s.Read(t.Context(), 0, "jpg", nil)
	if err != nil || string(content) != numbered(100, 1)[0].content {
		t.Errorf("after a change: %v", err)
	}
	opts.NoCache = true
	x, _ := scanned(t, other, cls)
	srv.set(func() { srv.files["train.tar.index"] = x.encode(cls.String()) })
	s = open(t, srv.URL+"/train.tar", opts)
	srv.set(func() { srv.tag = `"3"` })
	if _, err := s.Read(t.Context(), len(want)-1, "jpg", nil); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), `(ETag "2") and has`) {
		t.Errorf("a change while it is read: %v", err)
	}
}
