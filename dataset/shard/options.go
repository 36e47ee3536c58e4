package shard

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// Options configures [Open]. The zero value works.
type Options struct {
	// Label is the extension of the member that holds a sample's label. In
	// samples without such a member, the label is the field of that name in the
	// member json; only the default looks at no JSON. Default "cls", or "json"
	// where LabelField is given.
	Label string
	// LabelField names a field of that member, which is JSON then:
	// "annotation.class" is the field class in the object annotation.
	// Default: the member is the label, a whole number or text.
	LabelField string

	// MaxMemberBytes is the largest member that is read, below 2 GiB. Default
	// 256 MiB.
	MaxMemberBytes int64

	// Cache is the folder for indexes and for blocks of remote shards.
	// Default: pinion/shards in [os.UserCacheDir]; where that cannot be
	// made, nothing is kept.
	Cache string
	// CacheBytes limits what is kept in Cache. Several processes that share
	// it keep to the limit together, but for what they write at the same
	// moment. Default 16 GiB.
	CacheBytes int64
	// NoCache keeps nothing in files. Remote blocks that were used last stay
	// in memory in any case, 64 MiB of them: enough to read in order.
	NoCache bool

	// Timeout is how long a server may take to answer, and then for 16 KiB.
	// Default 30 s.
	Timeout time.Duration
	// GiveUp is how long what is asked for may take to begin to come: all tries
	// that bring nothing, and the pauses between them, together. It bounds the
	// pauses that a server asks for (Retry-After) too. Default 1 min.
	GiveUp time.Duration
	// Retries is how often a request that failed is made again, -1 for never.
	// Default 5.
	Retries int
	// OnRetry, where it is given, is called before a request is made again, for
	// those who watch: a server that stalls takes Timeout for each try. Several
	// requests call it at once.
	OnRetry func(Retry)
	// Connections is how many requests run at once. Default 16.
	Connections int
	// Client makes the requests: for proxies, certificates, credentials.
	// Default: one that speaks HTTP/1.1, so that each request in flight has a
	// connection of its own.
	Client *http.Client

	// Tests make these small.
	blockBytes int64
	firstPause time.Duration
}

// Retry is a request that failed and is made again.
type Retry struct {
	URL   string        // without password and query, which may be secret
	Err   error         // why it failed
	Try   int           // that failed, from 1
	Tries int           // there will be at most
	Pause time.Duration // before the next
}

const (
	// 4 MiB takes as long as a few round trips of a fast link, so requests
	// are not what limits, and a block is dozens of photos, not thousands:
	// little is fetched for nothing.
	defaultBlockBytes = 4 << 20

	defaultMaxMember  = 256 << 20
	defaultCacheBytes = 16 << 30
)

func (o Options) withDefaults() (Options, error) {
	for name, v := range map[string]int64{
		"MaxMemberBytes": o.MaxMemberBytes, "CacheBytes": o.CacheBytes,
		"Timeout": int64(o.Timeout), "GiveUp": int64(o.GiveUp), "Connections": int64(o.Connections), "Retries": int64(o.Retries) + 1,
	} {
		if v < 0 {
			return o, fmt.Errorf("%w: negative %s", ErrArgument, name)
		}
	}
	o.MaxMemberBytes = min(cmp.Or(o.MaxMemberBytes, defaultMaxMember), math.MaxInt32-1)
	o.CacheBytes = cmp.Or(o.CacheBytes, defaultCacheBytes)
	o.Timeout = cmp.Or(o.Timeout, 30*time.Second)
	o.GiveUp = cmp.Or(o.GiveUp, time.Minute)
	o.Retries = max(0, cmp.Or(o.Retries, 5))
	o.Connections = cmp.Or(o.Connections, 16)
	o.blockBytes = cmp.Or(o.blockBytes, defaultBlockBytes)
	o.firstPause = cmp.Or(o.firstPause, 200*time.Millisecond)
	if o.Client == nil {
		o.Client = newClient(o.Connections)
	}
	return o, nil
}

// newClient makes the default client.
func newClient(connections int) *http.Client {
	t := &http.Transport{Proxy: http.ProxyFromEnvironment}
	if usual, ok := http.DefaultTransport.(*http.Transport); ok {
		t = usual.Clone()
	}
	t.MaxIdleConnsPerHost = connections
	t.MaxConnsPerHost = connections
	t.Protocols = new(http.Protocols)
	t.Protocols.SetHTTP1(true)
	if t.TLSClientConfig != nil { // the usual transport's, which offers HTTP/2
		t.TLSClientConfig.NextProtos = []string{"http/1.1"}
	}
	return &http.Client{Transport: t}
}

// cache opens the cache, nil if there is none.
func (o Options) cache() (*cache, error) {
	if o.NoCache {
		return nil, nil
	}
	if o.Cache != "" {
		return openCache(o.Cache, o.CacheBytes)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return nil, nil // a machine without homes
	}
	c, err := openCache(filepath.Join(dir, "pinion", "shards"), o.CacheBytes)
	if err != nil {
		return nil, nil
	}
	return c, nil
}
