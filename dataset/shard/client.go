package shard

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const (
	maxPause      = 10 * time.Second // between two tries
	maxRetryAfter = time.Minute      // that a server may ask for
)

// client makes requests, a bounded number at once, and makes them again when
// that may help.
type client struct {
	http       *http.Client
	slots      chan struct{} // one per connection
	timeout    time.Duration
	retries    int
	onRetry    func(Retry) // may be nil
	firstPause time.Duration
}

func newRetryClient(o Options) *client {
	return &client{o.Client, make(chan struct{}, o.Connections), o.Timeout, o.Retries, o.OnRetry, o.firstPause}
}

// transient is an error that may be gone in the next try.
type transient struct {
	error
	after time.Duration // that the server asked for
}

// Unwrap returns the error.
func (t transient) Unwrap() error { return t.error }

// errStalled is why a request without progress is given up.
var errStalled = errors.New("stalled")

// byteRange is a part of a file; nothing for the whole of it.
type byteRange struct{ from, bytes int64 }

func (r byteRange) String() string { return fmt.Sprintf("bytes=%d-%d", r.from, r.from+r.bytes-1) }

// get asks for a file or a part of it and hands the answer to accept, which
// reads the body and may be called once per try. What accept returns is only
// tried again if it is transient, as all errors of the body are.
func (c *client) get(ctx context.Context, u *url.URL, r byteRange, accept func(*http.Response) error) error {
	for try := 0; ; try++ {
		err := c.try(ctx, u, r, accept)
		var again transient
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !errors.As(err, &again):
			return err
		case try == c.retries:
			return fmt.Errorf("%w after %d tries: %w", ErrUnavailable, try+1, again.error)
		}
		pause := max(c.pause(try), again.after)
		if c.onRetry != nil {
			c.onRetry(Retry{display(u), again.error, try + 1, c.retries + 1, pause})
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// pause is how long to wait after a try: twice as long each time, and so
// random that many readers do not come back at once.
func (c *client) pause(try int) time.Duration {
	most := maxPause
	if try < 16 {
		most = min(most, c.firstPause<<try)
	}
	return most/2 + rand.N(most/2+1)
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// slowest is how many bytes have to come within the time-out: one now and then
// would hold up a block for years.
const slowest = 16 << 10

// try makes one request.
func (c *client) try(ctx context.Context, u *url.URL, r byteRange, accept func(*http.Response) error) error {
	// The time in this queue is no stall of the server.
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchdog := time.AfterFunc(c.timeout, func() {
		cancel(fmt.Errorf("%w: less than %d bytes in %v", errStalled, slowest, c.timeout))
	})
	defer watchdog.Stop()

	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrArgument, withoutURL(err))
	}
	if r.bytes > 0 {
		request.Header.Set("Range", r.String())
	}
	request.Header.Set("Accept-Encoding", "identity") // ranges are of the file itself
	response, err := c.http.Do(request)
	if err != nil {
		return failure(ctx, err)
	}
	body := &progress{ctx: ctx, body: response.Body, alive: func() { watchdog.Reset(c.timeout) }}
	response.Body = body
	defer body.Close()
	body.alive()
	if err := status(response); err != nil {
		return err
	}
	return accept(response)
}

// failure classifies why a request got no answer, or not all of it.
func failure(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		if !errors.Is(cause, errStalled) {
			return cause
		}
		err = cause
	}
	err = withoutURL(err)
	var certificate *tls.CertificateVerificationError
	var name *net.DNSError
	switch {
	case errors.As(err, &certificate):
		return err
	case errors.As(err, &name) && name.IsNotFound:
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return transient{error: err}
}

// withoutURL leaves the URL out of an error: it may hold a signature.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// status classifies an answer that is none of what was asked for.
func status(response *http.Response) error {
	code := response.StatusCode
	if code == http.StatusOK || code == http.StatusPartialContent {
		return nil
	}
	err := fmt.Errorf("the server answered %s%s", response.Status, excerpt(response))
	switch {
	case code == http.StatusNotFound || code == http.StatusGone:
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	case code == http.StatusForbidden || code == http.StatusUnauthorized:
		return fmt.Errorf("%w: %w", fs.ErrPermission, err)
	case code == http.StatusRequestedRangeNotSatisfiable:
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	case code >= 500 || code == http.StatusTooManyRequests || code == http.StatusRequestTimeout:
		return transient{err, retryAfter(response.Header.Get("Retry-After"))}
	}
	return fmt.Errorf("%w: %w", ErrFormat, err)
}

// retryAfter reads a number of seconds or a date.
func retryAfter(value string) time.Duration {
	var d time.Duration
	if seconds, err := strconv.ParseUint(value, 10, 32); err == nil {
		d = time.Duration(seconds) * time.Second
	} else if date, err := http.ParseTime(value); err == nil {
		d = time.Until(date)
	}
	return min(max(d, 0), maxRetryAfter)
}

// excerpt shows what came: the type and the first bytes.
func excerpt(response *http.Response) string {
	head := make([]byte, 48)
	n, _ := io.ReadFull(response.Body, head)
	if n == 0 {
		return ", and nothing else"
	}
	return fmt.Sprintf(", type %.60q, that begins with %q", response.Header.Get("Content-Type"), head[:n])
}

// progress is a body whose errors are classified and whose bytes show that
// the server is alive.
type progress struct {
	ctx   context.Context
	body  io.ReadCloser
	alive func()
	since int // bytes since then
}

// Read implements [io.Reader].
func (p *progress) Read(b []byte) (int, error) {
	n, err := p.body.Read(b)
	if p.since += n; p.since >= slowest {
		p.since = 0
		p.alive()
	}
	if err != nil && err != io.EOF {
		err = failure(p.ctx, err)
	}
	return n, err
}

// Close implements [io.Closer].
func (p *progress) Close() error { return p.body.Close() }
