package shard

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
)

// remote is a shard behind a URL.
type remote struct {
	url     *url.URL
	client  *client
	blocks  *blocks
	size    int64
	version string // ETag, or else the time of the last change
	prefix  string // of the names of blocks in the cache

	last atomic.Int64 // block that was read last, -1 at first
	next *remote      // shard; nil after the last
}

// display returns a URL for messages, without password and query, which may be
// a signature.
func display(u *url.URL) string {
	d := *u
	d.RawQuery, d.User, d.Fragment = "", nil, ""
	return d.String()
}

// openRemote asks for the size and the version of a shard.
func openRemote(ctx context.Context, u *url.URL, c *client, b *blocks) (*remote, error) {
	r := &remote{url: u, client: c, blocks: b}
	r.last.Store(-1)
	head := byteRange{0, blockBytes}
	err := c.get(ctx, u, head, func(response *http.Response) error {
		from, bytes, size, err := contentRange(response)
		if err != nil {
			return err
		}
		if from != 0 || bytes != min(head.bytes, size) {
			return fmt.Errorf("%w: the server sent %q for %q%s", ErrDamaged, response.Header.Get("Content-Range"), head, excerpt(response))
		}
		r.size, r.version = size, version(response)
		return readBody(response, make([]byte, bytes))
	})
	if err == nil && r.version == "" {
		// What cannot be told apart from what comes later is for this opening alone:
		// nothing in the cache is found again.
		r.version = "once " + rand.Text()
	}
	r.prefix = fmt.Sprintf("%s-%x-", cacheName(r.identity()), b.bytes)
	return r, err
}

// bytes implements [place].
func (r *remote) bytes() int64 { return r.size }

// identity implements [place].
func (r *remote) identity() string {
	u := *r.url
	if strings.HasPrefix(r.version, `ETag "`) {
		// So strong a version tells apart what one URL had at different times.
		u.User = nil
		if signed(u.Query()) {
			u.RawQuery = "" // which is another one each time
		}
	}
	return fmt.Sprint("url\x00", &u, "\x00", r.size, "\x00", r.version)
}

// signed reports whether a query is a signature, as object stores have it: then
// the path says which file it is, and else the query may.
func signed(query url.Values) bool {
	for name := range query {
		if name = strings.ToLower(name); name == "sig" || strings.HasSuffix(name, "signature") {
			return true
		}
	}
	return false
}

// version is what the server tells versions of a file apart by.
func version(response *http.Response) string {
	if tag := response.Header.Get("ETag"); tag != "" {
		return "ETag " + tag
	}
	if date := response.Header.Get("Last-Modified"); date != "" {
		return "of " + date
	}
	return ""
}

// contentRange reads "bytes 0-511/10240" from the head of an answer.
func contentRange(response *http.Response) (from, bytes, size int64, err error) {
	if response.StatusCode == http.StatusOK {
		return 0, 0, 0, fmt.Errorf("%w: the server answered a request for a part with the whole, or with a page: it must support range requests%s", ErrFormat, excerpt(response))
	}
	header := response.Header.Get("Content-Range")
	rest, ok := strings.CutPrefix(header, "bytes ")
	span, total, ok2 := strings.Cut(rest, "/")
	first, last, ok3 := strings.Cut(span, "-")
	var numbers [3]int64
	for i, text := range []string{first, last, total} {
		n, err := strconv.ParseUint(text, 10, 63)
		ok = ok && err == nil && n < math.MaxInt64
		numbers[i] = int64(n)
	}
	if from, bytes, size = numbers[0], numbers[1]-numbers[0]+1, numbers[2]; !ok || !ok2 || !ok3 || bytes < 1 || numbers[1] >= size {
		return 0, 0, 0, fmt.Errorf("%w: the server sent a part with Content-Range %.80q%s", ErrDamaged, header, excerpt(response))
	}
	if encoding := response.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return 0, 0, 0, fmt.Errorf("%w: the server encoded a part of the file (%.40q)", ErrFormat, encoding)
	}
	return from, bytes, size, nil
}

// readBody fills dst with a body that must have just that many bytes.
func readBody(response *http.Response, dst []byte) error {
	n, err := io.ReadFull(response.Body, dst)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		return transient{error: fmt.Errorf("the body ended after %d of %d bytes", n, len(dst))}
	case err != nil:
		return err
	}
	var more [1]byte
	if n, err := io.ReadFull(response.Body, more[:]); n > 0 {
		return fmt.Errorf("%w: the server sent more than the %d bytes that it announced", ErrDamaged, len(dst))
	} else if err != io.EOF {
		return err
	}
	return nil
}

// fetch returns a block.
func (r *remote) fetch(ctx context.Context, n int64) ([]byte, error) {
	part := byteRange{n * r.blocks.bytes, r.blockLen(n)}
	var block []byte
	err := r.client.get(ctx, r.url, part, func(response *http.Response) error {
		from, bytes, size, err := contentRange(response)
		if err != nil {
			return err
		}
		now := version(response)
		if size != r.size || now != r.version && (now != "" || !strings.HasPrefix(r.version, "once ")) {
			return fmt.Errorf("%w: the shard had %d bytes (%s) and has %d (%s): it changed while it was read", ErrDamaged, r.size, r.version, size, now)
		}
		if from != part.from || bytes != part.bytes {
			return fmt.Errorf("%w: the server sent %.80q for %q%s", ErrDamaged, response.Header.Get("Content-Range"), part, excerpt(response))
		}
		if block == nil {
			block = make([]byte, part.bytes)
		}
		return readBody(response, block)
	})
	if err != nil {
		return nil, err
	}
	return block, nil
}

// blockCount is the number of blocks of the shard; the last may be short.
func (r *remote) blockCount() int64 { return (r.size + r.blocks.bytes - 1) / r.blocks.bytes }

func (r *remote) blockLen(n int64) int64 { return min(r.blocks.bytes, r.size-n*r.blocks.bytes) }

// atOnce is how many blocks of one large member are fetched at once.
const atOnce = 4

// readAt implements [source].
func (r *remote) readAt(ctx context.Context, p []byte, at int64) error {
	last := (at + int64(len(p)) - 1) / r.blocks.bytes
	asked := at / r.blocks.bytes
	for len(p) > 0 {
		n, in := at/r.blocks.bytes, at%r.blocks.bytes
		for asked < min(last, n+atOnce-1) {
			asked++
			r.blocks.fetchAhead(blockID{r, asked})
		}
		part := p[:min(int64(len(p)), r.blockLen(n)-in)]
		if err := r.blocks.read(ctx, blockID{r, n}, part, in); err != nil {
			return err
		}
		p, at = p[len(part):], at+int64(len(part))
	}
	return nil
}

// sidecar implements [place].
func (r *remote) sidecar(ctx context.Context) (content []byte, err error) {
	u := *r.url
	u.Path, u.RawPath = u.Path+IndexSuffix, ""
	err = r.client.get(ctx, &u, byteRange{}, func(response *http.Response) error {
		content = nil
		head := make([]byte, indexHeadBytes)
		if _, err := io.ReadFull(response.Body, head); err != nil {
			return err
		}
		_, size := indexLengths(head)
		if !bytes.HasPrefix(head, []byte(indexMagic)) || size > min(r.size, maxIndexBytes) {
			return nil // a server may answer with a page of its own
		}
		rest, err := io.ReadAll(io.LimitReader(response.Body, size-int64(len(head))))
		content = append(head, rest...)
		return err
	})
	var again transient
	if err != nil && (ctx.Err() != nil || errors.As(err, &again) || errors.Is(err, ErrUnavailable)) {
		return nil, err
	}
	return content, nil // without one, the index can be made
}
