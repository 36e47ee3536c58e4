package shard

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// pageBytes have a checksum each, so that a sample can be read from a block
// without the rest of it.
const pageBytes = 64 << 10

const (
	blockSuffix = ".block"
	// ownPrefix begins the names of all files of a cache. Others are left
	// alone: users name folders that hold more, shards with their indexes even.
	ownPrefix  = "pinion-cache-"
	partPrefix = ownPrefix + "part-" // of files that are being written
	// partAge is when such a file is one that a process left behind.
	partAge = time.Hour
	// useAge is how old the time of a file's last use may be.
	useAge = time.Minute
)

// cache is a folder of files of bounded size, for several processes at once.
// A file is written beside its place and renamed, and never changed. The time
// of the last change is that of the last use; what was used longest ago is
// removed first. Whatever goes wrong, the file is just not there: everything
// in the cache can be got again.
//
// A nil cache keeps nothing.
type cache struct {
	dir   string
	limit int64
	now   func() time.Time

	repaired atomic.Int64 // entries with wrong checksums, removed
	failed   atomic.Int64 // entries that could not be written

	mu    sync.Mutex
	used  int64 // bytes, as far as this process knows
	fresh int64 // bytes written since it looked
}

func openCache(dir string, limit int64) (*cache, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	c := &cache{dir: dir, limit: limit, now: time.Now}
	c.shrink(0)
	return c, nil
}

// cacheName is the name of what belongs to a key.
func cacheName(key string) string {
	sum := sha256.Sum256([]byte(key))
	return ownPrefix + hex.EncodeToString(sum[:16])
}

// get returns a file, nil if there is none.
func (c *cache) get(name string) []byte {
	if c == nil {
		return nil
	}
	path := filepath.Join(c.dir, name)
	content, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	c.touch(path)
	return content
}

// has reports whether there is a file.
func (c *cache) has(name string) bool {
	if c == nil {
		return false
	}
	_, err := os.Stat(filepath.Join(c.dir, name))
	return err == nil
}

// put keeps content, if there is room.
func (c *cache) put(name string, content []byte) {
	if c == nil || int64(len(content)) > c.limit {
		return
	}
	c.reserve(int64(len(content)))
	if err := c.write(name, content); err != nil {
		c.failed.Add(1)
		c.mu.Lock()
		c.used -= int64(len(content))
		c.mu.Unlock()
	}
}

func (c *cache) write(name string, content []byte) error {
	f, err := os.CreateTemp(c.dir, partPrefix)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = cmp.Or(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(c.dir, name))
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// pageSum is the checksum of a page of the block of that name.
func pageSum(name string, page int64, data []byte) uint32 {
	sum := crc32.Checksum(strconv.AppendInt([]byte(name), page, 10), castagnoli)
	return crc32.Update(sum, castagnoli, data)
}

// putBlock keeps a block, as pages with a checksum behind each.
func (c *cache) putBlock(name string, block []byte) {
	if c == nil {
		return
	}
	file := make([]byte, 0, len(block)+(len(block)/pageBytes+1)*crc32.Size)
	page := int64(0)
	for data := range slices.Chunk(block, pageBytes) {
		file = append(file, data...)
		file = binary.LittleEndian.AppendUint32(file, pageSum(name, page, data))
		page++
	}
	c.put(name, file)
}

var pages = sync.Pool{New: func() any { return new([pageBytes + crc32.Size]byte) }}

// readBlock fills dst from a place in a block of that length, and reports
// whether it could. A block with a wrong checksum is removed.
func (c *cache) readBlock(name string, length int64, dst []byte, at int64) bool {
	if c == nil {
		return false
	}
	path := filepath.Join(c.dir, name)
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	buffer := pages.Get().(*[pageBytes + crc32.Size]byte)
	defer pages.Put(buffer)
	for n := at / pageBytes; len(dst) > 0; n++ {
		data := buffer[:min(pageBytes, length-n*pageBytes)+crc32.Size]
		if _, err := f.ReadAt(data, n*int64(len(buffer))); err != nil && err != io.EOF {
			return false
		} else if err == io.EOF || !goodPage(name, n, data) {
			c.repaired.Add(1)
			f.Close() // some systems do not remove what is open
			os.Remove(path)
			return false
		}
		done := copy(dst, data[at-n*pageBytes:len(data)-crc32.Size])
		dst, at = dst[done:], at+int64(done)
	}
	c.touch(path)
	return true
}

// goodPage checks a page with its checksum behind it.
func goodPage(name string, page int64, data []byte) bool {
	end := len(data) - crc32.Size
	return pageSum(name, page, data[:end]) == binary.LittleEndian.Uint32(data[end:])
}

// touch notes that a file is used.
func (c *cache) touch(path string) {
	info, err := os.Stat(path)
	if now := c.now(); err == nil && now.Sub(info.ModTime()) > useAge {
		os.Chtimes(path, now, now)
	}
}

// reserve makes room for a new file.
func (c *cache) reserve(bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used += bytes
	c.fresh += bytes
	// Others may be writing too.
	if c.used > c.limit || c.fresh > c.limit/16 {
		c.shrink(bytes)
	}
}

// shrink looks at what is there, and removes files until there is room.
func (c *cache) shrink(room int64) {
	type entry struct {
		path string
		size int64
		used time.Time
	}
	var list []entry
	total := room
	found, _ := os.ReadDir(c.dir) // what cannot be listed cannot be removed
	for _, e := range found {
		name := e.Name()
		if !strings.HasPrefix(name, ownPrefix) || !e.Type().IsRegular() {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue // another process was faster
		}
		path := filepath.Join(c.dir, name)
		if strings.HasPrefix(name, partPrefix) {
			if c.now().Sub(info.ModTime()) > partAge {
				os.Remove(path)
			}
			continue
		}
		list = append(list, entry{path, info.Size(), info.ModTime()})
		total += info.Size()
	}
	if total > c.limit {
		slices.SortFunc(list, func(a, b entry) int { return cmp.Or(a.used.Compare(b.used), cmp.Compare(a.path, b.path)) })
		// A little more than needed, so that this is not for every file.
		for _, e := range list {
			if total <= c.limit-c.limit/8 {
				break
			}
			if err := os.Remove(e.path); err == nil || os.IsNotExist(err) {
				total -= e.size
			}
		}
	}
	c.used, c.fresh = total, 0
}
