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

	"github.com/pinion-gpu/pinion/internal/units"
)

// maxPause is the longest pause between two tries, if the server asks for none.
const maxPause = 10 * time.Second

// client makes requests, a bounded number at once, and makes them again when
// that may help.
type client struct {
	http       *http.Client
	slots      chan struct{} // one per connection
	timeout    time.Duration
	giveUp     time.Duration
	retries    int
	onRetry    func(Retry) // may be nil
	firstPause time.Duration
}

func newRetryClient(o Options) *client {
	return &client{o.Client, make(chan struct{}, o.Connections), o.Timeout, o.GiveUp, o.Retries, o.OnRetry, o.firstPause}
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
	var spent time.Duration // in tries and pauses
	for try := 1; ; try++ {
		took, err := c.try(ctx, u, r, c.giveUp-spent, accept)
		spent += took
		var again transient
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !errors.As(err, &again):
			return err
		}
		pause := max(c.pause(try-1), again.after)
		why := ""
		switch {
		case try > c.retries:
		case again.after > 0 && again.after >= c.giveUp-spent:
			why = fmt.Sprintf(" (the server asks to wait %v, the limit is %v)", again.after, c.giveUp)
		case pause >= c.giveUp-spent:
			why = fmt.Sprintf(" (the limit is %v)", c.giveUp)
		default:
			if c.onRetry != nil {
				c.onRetry(Retry{display(u), again.error, try, c.retries + 1, pause})
			}
			if err := sleep(ctx, pause); err != nil {
				return err
			}
			spent += pause
			continue
		}
		return fmt.Errorf("%w after %s in %s%s: %w", ErrUnavailable, units.Count(try, "try"), units.Duration(spent), why, again.error)
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

// try makes one request, which may take until limit to bring anything, and
// returns how long it took.
func (c *client) try(ctx context.Context, u *url.URL, r byteRange, limit time.Duration, accept func(*http.Response) error) (took time.Duration, err error) {
	// The time in this queue is no stall of the server.
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	began := time.Now()
	defer func() { took = time.Since(began) }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timeout := min(c.timeout, limit)
	watchdog := time.AfterFunc(timeout, func() {
		cancel(fmt.Errorf("%w: less than %d bytes in %v", errStalled, slowest, timeout.Round(time.Millisecond)))
	})
	defer watchdog.Stop()

	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrArgument, withoutURL(err))
	}
	if r.bytes > 0 {
		request.Header.Set("Range", r.String())
	}
	request.Header.Set("Accept-Encoding", "identity") // ranges are of the file itself
	response, err := c.http.Do(request)
	if err != nil {
		return 0, failure(ctx, err)
	}
	body := &progress{ctx: ctx, body: response.Body, alive: func() { watchdog.Reset(timeout) }}
	response.Body = body
	defer body.Close()
	body.alive()
	if err := status(response); err != nil {
		return 0, err
	}
	return 0, accept(response)
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
		return fmt.Errorf("%w: unknown host: %w", ErrUnavailable, name)
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
	return max(d, 0)
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
