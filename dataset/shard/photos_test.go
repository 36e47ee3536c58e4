package shard_test

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/photos"
	"github.com/pinion-gpu/pinion/dataset/shard"
	"github.com/pinion-gpu/pinion/dataset/tar"
	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/internal/samplephotos"
	"github.com/pinion-gpu/pinion/sampler"
)

const many = 24

var imageOptions = photos.Options{Transform: imaging.CenterCrop(32)}

// packPhotos makes a folder of photos and packs it into shards.
func packPhotos(t *testing.T) (folder, shards string) {
	t.Helper()
	folder, shards = filepath.Join(t.TempDir(), "photos"), filepath.Join(t.TempDir(), "shards")
	if err := samplephotos.Make(t.Context(), folder, many, nil); err != nil {
		t.Fatal(err)
	}
	if err := tar.Pack(t.Context(), folder, shards, tar.PackOptions{Shards: shard.WriterOptions{ShardBytes: 400 << 10}}); err != nil {
		t.Fatal(err)
	}
	return folder, shards
}

// samples reads all of a dataset with several workers, in an order, and
// returns label and pixels by index.
func samples(t *testing.T, d dataset.Dataset, order sampler.Sampler) []string {
	t.Helper()
	list := make([]string, d.Len())
	var workers sync.WaitGroup
	for w := range 3 {
		workers.Go(func() {
			r, err := d.NewReader()
			if err != nil {
				t.Error(err)
				return
			}
			defer r.Close()
			dst := make([]byte, d.Spec().Bytes())
			for k := w; k < order.Len(); k += 3 {
				i := order.At(0, k)
				if err := r.Read(t.Context(), dataset.Visit{Index: i}, dst); err != nil {
					t.Error(err)
					return
				}
				list[i] = fmt.Sprint(d.Label(i), dst)
			}
		})
	}
	workers.Wait()
	return list
}

// TestPhotos: photos in shards are those of the folder they come from, on disk
// and from a real server, whatever the cache holds.
func TestPhotos(t *testing.T) {
	folder, shards := packPhotos(t)
	direct, err := photos.Open(t.Context(), folder, imageOptions)
	if err != nil {
		t.Fatal(err)
	}
	random, err := sampler.NewRandom(many, 1)
	if err != nil {
		t.Fatal(err)
	}
	want := samples(t, direct, random)
	tars, err := filepath.Glob(filepath.Join(shards, "*.tar"))
	if err != nil || len(tars) < 4 {
		t.Fatalf("%d shards, %v", len(tars), err)
	}
	pattern := fmt.Sprintf("/shard-{000000..%06d}.tar", len(tars)-1)
	same := func(t *testing.T, location string, opts shard.Options) shard.Stats {
		t.Helper()
		files, err := tar.OpenFiles(t.Context(), location, tar.Options{Shards: opts})
		if err != nil {
			t.Fatal(err)
		}
		defer files.Close()
		images, err := photos.New(files, imageOptions)
		if err != nil {
			t.Fatal(err)
		}
		blocks, err := sampler.NewBlocks(files.Shards(), 2, 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, order := range []sampler.Sampler{random, blocks} {
			for i, s := range samples(t, images, order) {
				if s != want[i] {
					t.Errorf("%s is not %s", images.Name(i), direct.Name(i))
				}
			}
		}
		return files.Set().Stats()
	}
	t.Run("disk", func(t *testing.T) {
		for _, location := range []string{shards, shards + pattern} {
			same(t, location, shard.Options{Cache: t.TempDir()})
		}
	})
	t.Run("nginx", func(t *testing.T) {
		server := startNginx(t, shards)
		for name, opts := range map[string]shard.Options{
			server.plain:  {},
			server.secure: {Client: server.client},
		} {
			opts.Cache = t.TempDir()
			opts = opts.WithBlocks(64 << 10)
			cold := same(t, name+pattern, opts)
			warm := same(t, name+pattern, opts)
			if cold.Fetched == 0 || warm.Fetched != 0 || warm.FromCache == 0 {
				t.Errorf("%s: cold %+v, warm %+v", name, cold, warm)
			}
			opts.Cache, opts.CacheBytes = t.TempDir(), 200<<10
			if small := same(t, name+pattern, opts); small.Fetched <= cold.Fetched {
				t.Errorf("%s: cold %+v, too small %+v", name, cold, small)
			}
			opts.NoCache = true
			same(t, name+pattern, opts)
		}
		// Without indexes beside them.
		for _, path := range tars {
			if err := os.Remove(path + shard.IndexSuffix); err != nil {
				t.Fatal(err)
			}
		}
		same(t, server.plain+pattern, shard.Options{Cache: t.TempDir()})
		same(t, server.plain+"/moved"+pattern, shard.Options{Cache: t.TempDir()})
	})
}

// TestNginx: what a real server says.
func TestNginx(t *testing.T) {
	_, shards := packPhotos(t)
	server := startNginx(t, shards)
	for location, c := range map[string]struct {
		err  error
		text string
	}{
		server.plain + "/missing.tar":                {fs.ErrNotExist, "404 Not Found, type \"text/html\""},
		server.plain + "/forbidden/x.tar":            {fs.ErrPermission, "403 Forbidden"},
		server.plain + "/whole/shard-000000.tar":     {shard.ErrFormat, "must support range requests"},
		server.plain + "/shard-{000000..000099}.tar": {fs.ErrNotExist, "404"},
	} {
		if _, err := shard.Open(t.Context(), location, shard.Options{NoCache: true}); !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", location, err)
		}
	}
	var unknown x509.UnknownAuthorityError
	if _, err := shard.Open(t.Context(), server.secure+"/shard-000000.tar", shard.Options{NoCache: true}); !errors.As(err, &unknown) {
		t.Errorf("a certificate that nobody knows: %v", err)
	}

	// Connections are kept.
	before := len(server.requests(t, 0))
	opts := shard.Options{NoCache: true, Connections: 2}.WithBlocks(16 << 10)
	set, err := shard.Open(t.Context(), server.plain+"/shard-000000.tar", opts)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	for i := range set.Len() {
		if _, err := set.Read(t.Context(), i, "jpg", nil); err != nil {
			t.Fatal(err)
		}
	}
	set.Close()
	connections := map[string]bool{}
	lines := server.requests(t, before)
	for _, line := range lines {
		connection, _, _ := strings.Cut(line, " ")
		connections[connection] = true
	}
	// Not for ever: Close cuts off what is fetched ahead, and on a busy machine one
	// may not be free again when the next request comes.
	if len(lines) < 10 || len(connections) > len(lines)/2 {
		t.Errorf("%d requests over %d connections", len(lines), len(connections))
	}

	// A shard that is replaced.
	set, err = shard.Open(t.Context(), server.plain+"/shard-000001.tar", opts)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	path := filepath.Join(shards, "shard-000001.tar")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.ToUpper(content), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if _, err := set.Read(t.Context(), 0, "jpg", nil); !errors.Is(err, shard.ErrDamaged) || !strings.Contains(err.Error(), "it changed while it was read") {
		t.Error(err)
	}
}
