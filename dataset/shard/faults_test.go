package shard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestServerFaults: what goes away is tried again, and the samples are right.
func TestServerFaults(t *testing.T) {
	answer := func(code int) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(code)
		}
	}
	hijack := func(w http.ResponseWriter, text string) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			io.WriteString(conn, text)
			conn.Close()
		}
	}
	size := len(pack(t, numbered(0, 20)...))
	part := func(r *http.Request) string {
		return fmt.Sprintf("%s/%d", strings.Replace(r.Header.Get("Range"), "=", " ", 1), size)
	}
	for name, fault := range map[string]func(http.ResponseWriter, *http.Request){
		"429": answer(429), "500": answer(500), "503": answer(503), "408": answer(408),
		"drop":    func(w http.ResponseWriter, _ *http.Request) { hijack(w, "") },
		"garbage": func(w http.ResponseWriter, _ *http.Request) { hijack(w, "\x00\x01 garbage\r\n\r\n") },
		"short": func(w http.ResponseWriter, r *http.Request) {
			hijack(w, "HTTP/1.1 206 Partial Content\r\nETag: \"1\"\r\nContent-Range: "+part(r)+"\r\nContent-Length: 4096\r\n\r\nabc")
		},
		"stall": func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"stall in the body": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"1"`)
			w.Header().Set("Content-Range", part(r))
			w.WriteHeader(206)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, want := oneShard(t, 20)
			opts := options(t)
			s := open(t, srv.URL+"/train.tar", opts) // the index is in the cache
			s.Close()
			opts.Cache = t.TempDir()
			if strings.HasPrefix(name, "stall") {
				opts.Timeout = 100 * time.Millisecond
			}
			srv.set(func() {
				srv.fault = func(n int, w http.ResponseWriter, r *http.Request) bool {
					bad := n%3 != 0 && !strings.HasSuffix(r.Header.Get("Range"), "=0-511") // two of three
					if bad {
						fault(w, r)
					}
					return bad
				}
			})
			opts.Retries = 50
			var retries atomic.Int64
			opts.OnRetry = func(r Retry) {
				retries.Add(1)
				// On a busy machine the request for the index may be thought to stall, too.
				late := strings.HasPrefix(name, "stall") && r.URL == srv.URL+"/train.tar.index"
				if r.URL != srv.URL+"/train.tar" && !late || r.Err == nil || r.Try < 1 || r.Try >= r.Tries || r.Tries != 51 || r.Pause < 0 {
					t.Errorf("%+v", r)
				}
				if stalled := errors.Is(r.Err, errStalled); stalled != strings.HasPrefix(name, "stall") {
					t.Errorf("%v", r.Err)
				}
			}
			check(t, open(t, srv.URL+"/train.tar", opts), want)
			if retries.Load() == 0 {
				t.Error("nobody was told of the retries")
			}
		})
	}
}

// slowServer answers requests for ranges of one file with a few bytes every now
// and then. It needs no network, so that tests can run on a clock of their own.
type slowServer struct {
	file  []byte
	bytes int // at once
	pause time.Duration
}

// RoundTrip implements http.RoundTripper.
func (s slowServer) RoundTrip(r *http.Request) (*http.Response, error) {
	from, to := 0, len(s.file)-1
	fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &from, &to)
	to = min(to, len(s.file)-1)
	header := http.Header{"Etag": {`"1"`}, "Content-Range": {fmt.Sprintf("bytes %d-%d/%d", from, to, len(s.file))}}
	body := &slowBody{r.Context(), s, s.file[from : to+1]}
	return &http.Response{StatusCode: http.StatusPartialContent, Header: header, Body: body, ContentLength: -1, Request: r}, nil
}

type slowBody struct {
	ctx context.Context
	slowServer
	left []byte
}

func (b *slowBody) Read(p []byte) (int, error) {
	if len(b.left) == 0 {
		return 0, io.EOF
	}
	select {
	case <-time.After(b.pause):
	case <-b.ctx.Done():
		return 0, context.Cause(b.ctx)
	}
	n := copy(p[:min(len(p), b.bytes)], b.left)
	b.left = b.left[n:]
	return n, nil
}

func (b *slowBody) Close() error { return nil }

// TestServerSlow: slower than the time-out in all, but never still for long.
func TestServerSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		want := []entry{{name: "1.jpg", content: string(block(1, 150_000))}}
		opts := options(t)
		opts.Timeout, opts.Retries, opts.blockBytes = 600*time.Millisecond, -1, 1<<20 // one request for all
		opts.Client = &http.Client{Transport: slowServer{pack(t, want...), 8 << 10, 250 * time.Millisecond}}
		start := time.Now()
		check(t, open(t, "http://slow.example/train.tar", opts), want)
		if took := time.Since(start); took < 4*opts.Timeout {
			t.Errorf("took %v", took)
		}
	})
}

// TestServerTrickles: a byte now and then is no progress.
func TestServerTrickles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := options(t)
		opts.Timeout, opts.Retries = 200*time.Millisecond, -1
		file := pack(t, entry{name: "1.jpg", content: string(block(1, 150_000))})
		opts.Client = &http.Client{Transport: slowServer{file, 1, 10 * time.Millisecond}}
		_, err := Open(t.Context(), "http://slow.example/train.tar", opts)
		if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "less than 16384 bytes in 200ms") {
			t.Errorf("%v", err)
		}
	})
}

// TestServerErrors: what will not go away is an error at once, that says what
// came.
func TestServerErrors(t *testing.T) {
	page := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, "<html>please log in</html>")
	}
	part := func(contentRange, body string, header ...string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("ETag", `"1"`)
			w.Header().Set("Content-Range", contentRange)
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(206)
			w.(http.Flusher).Flush() // without Content-Length
			io.WriteString(w, body)
		}
	}
	status := func(code int) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	srv, want := oneShard(t, 20)
	size := len(srv.files["train.tar"])
	fits := fmt.Sprintf("bytes 0-4095/%d", size)
	body := strings.Repeat("x", 4096)
	for _, c := range []struct {
		name  string
		fault func(http.ResponseWriter, *http.Request)
		err   error
		text  string
		tries int64
	}{
		{"404", status(404), fs.ErrNotExist, "404 Not Found", 1},
		{"410", status(410), fs.ErrNotExist, "410 Gone", 1},
		{"403", status(403), fs.ErrPermission, "403 Forbidden", 1},
		{"401", status(401), fs.ErrPermission, "401 Unauthorized", 1},
		{"400", status(400), ErrFormat, "400 Bad Request", 1},
		{"416", status(416), ErrDamaged, "416", 1},
		{"503 for ever", status(503), ErrUnavailable, ": the server answered 503", 3},
		{"a page", page, ErrFormat, `range requests, type "text/html", that begins with "<html>please log in</html>"`, 1},
		{"another range", part(fmt.Sprintf("bytes 1-4096/%d", size), body), ErrDamaged, `sent "bytes 1-4096/`, 1},
		{"a shorter range", part(fmt.Sprintf("bytes 0-4094/%d", size), body[1:]), ErrDamaged, `sent "bytes 0-4094/`, 1},
		{"no range", part("", body), ErrDamaged, `Content-Range ""`, 1},
		{"a range of letters", part("bytes a-b/c", body), ErrDamaged, `Content-Range "bytes a-b/c"`, 1},
		{"a range without size", part("bytes 0-4095/*", body), ErrDamaged, `0-4095/*`, 1},
		{"a range beyond the size", part("bytes 0-4095/4095", body), ErrDamaged, "0-4095/4095", 1},
		{"a range backwards", part("bytes 9-3/4095", body), ErrDamaged, "9-3/4095", 1},
		{"more than the range", part(fits, body+"y"), ErrDamaged, "more than the 4096 bytes", 1},
		{"less than the range", part(fits, body[1:]), ErrUnavailable, "ended after 4095 of 4096 bytes", 3},
		{"encoded", part(fits, body, "Content-Encoding", "gzip"), ErrFormat, "encoded", 1},
		{"another ETag", part(fits, body, "ETag", `"2"`), ErrDamaged, "it changed while it was read", 1},
		{"another size", part("bytes 0-4095/99999", body), ErrDamaged, "and has 99999", 1},
		{"other bytes", part(fits, body), ErrDamaged, "not the one that was indexed", 1},
	} {
		t.Run(name(c.name), func(t *testing.T) {
			srv.set(func() { srv.fault = nil })
			opts := options(t)
			opts.Retries = 2
			open(t, srv.URL+"/train.tar?signature=secret", opts).Close()
			opts.NoCache = true // nothing of the shard; the index comes from beside it
			x, err := scanned(t, srv.files["train.tar"], cls)
			if err != nil {
				t.Fatal(err)
			}
			srv.set(func() { srv.files["train.tar.index"] = x.encode(cls.String()) })
			s := open(t, srv.URL+"/train.tar?signature=secret", opts)
			before := srv.requests.Load()
			srv.set(func() {
				srv.fault = func(_ int, w http.ResponseWriter, r *http.Request) bool {
					if !strings.HasPrefix(r.Header.Get("Range"), "bytes=0-") {
						<-r.Context().Done() // what is fetched ahead
					} else {
						c.fault(w, r)
					}
					return true
				}
			})
			_, err = s.Read(t.Context(), 0, "jpg", nil)
			if !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.text) || !strings.Contains(err.Error(), srv.URL+"/train.tar/c0/00000.jpg: ") {
				t.Errorf("%v", err)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the query of the URL is in the error: %v", err)
			}
			s.Close()
			tries := srv.requests.Load() - before
			if tries < c.tries || tries > c.tries+readAhead {
				t.Errorf("%d requests, want %d and some for blocks ahead", tries, c.tries)
			}
		})
	}
	srv.set(func() { srv.fault = nil })
	check(t, open(t, srv.URL+"/train.tar", options(t)), want)
}

// name is of a subtest.
func name(s string) string { return strings.ReplaceAll(s, " ", "_") }

// TestGiveUp: however a server puts its clients off, they give up in the end,
// and say when.
func TestGiveUp(t *testing.T) {
	stall := func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	later := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "100000")
		w.WriteHeader(503)
	}
	for _, c := range []struct {
		name  string
		fault func(http.ResponseWriter, *http.Request)
		want  string
		tries int64 // at most
	}{
		{"stalls", stall, `not available after \d+ tr(y|ies) in \S+ m?s \(the limit is 300ms\): stalled: less than 16384 bytes in`, 4},
		{"asks for patience", later, `not available after 1 try in \S+ .?s \(the server asks to wait 27h46m40s, the limit is 300ms\): the server answered 503`, 1},
	} {
		t.Run(name(c.name), func(t *testing.T) {
			t.Parallel()
			srv, _ := oneShard(t, 20)
			srv.set(func() {
				srv.fault = func(_ int, w http.ResponseWriter, r *http.Request) bool {
					c.fault(w, r)
					return true
				}
			})
			opts := options(t)
			opts.Timeout, opts.GiveUp, opts.Retries = 100*time.Millisecond, 300*time.Millisecond, 1000
			_, err := Open(t.Context(), srv.URL+"/train.tar", opts)
			if !errors.Is(err, ErrUnavailable) || !regexp.MustCompile(c.want).MatchString(err.Error()) {
				t.Errorf("%v, want %s", err, c.want)
			}
			if n := srv.requests.Load(); n > c.tries {
				t.Errorf("%d requests, want %d at most", n, c.tries)
			}
		})
	}
}

// TestUnknownHost: a host that DNS does not know is not a file that is missing.
func TestUnknownHost(t *testing.T) {
	opts := options(t)
	opts.Client = &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "nowhere.invalid", IsNotFound: true}}
	}}}
	_, err := Open(t.Context(), "http://nowhere.invalid/train.tar", opts)
	want := "unknown host: lookup nowhere.invalid: no such host"
	if !errors.Is(err, ErrUnavailable) || errors.Is(err, fs.ErrNotExist) || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v, want %v: %s", err, ErrUnavailable, want)
	}
}

func TestRetryAfter(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "-7": 0, "99999": 99999 * time.Second, "soon": 0,
		"Mon, 02 Jan 2006 15:04:05 GMT": 0,
	} {
		if d := retryAfter(value); d != want {
			t.Errorf("%q: %v, want %v", value, d, want)
		}
	}
	c := &client{firstPause: time.Second}
	for try, most := range map[int]time.Duration{0: time.Second, 2: 4 * time.Second, 10: maxPause, 99: maxPause} {
		if d := c.pause(try); d < most/2 || d > most {
			t.Errorf("pause %d is %v, want %v to %v", try, d, most/2, most)
		}
	}
}
