package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/pinion-gpu/pinion/internal/directio"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/internal/units"
)

const (
	enoughFile = 32 << 20  // bytes of a file that is worth reading
	writtenFor = 64 << 20  // bytes that are written where there is none
	mostRead   = 512 << 20 // bytes
	readTime   = 1200 * time.Millisecond
	lookTime   = 500 * time.Millisecond // for a file that is large enough
	diskPiece  = 4 << 20
)

// probeDisk reads from where path lies: a file there that is large enough, or one
// that is written for that and has no name.
func probeDisk(ctx context.Context, req request) (_ any, err error) {
	path, err := realPath(req.Path) // a link may lead to another disk
	if err != nil {
		return nil, err
	}
	if err := readAt(path); err != nil {
		return nil, err
	}
	s := thisSystem()
	disk, _ := s.mountOf(path)
	if memories[disk.kind] {
		return nil, fmt.Errorf("there is no disk to read: files of %s are in memory", disk.kind)
	}
	name, err := largeFile(path)
	if err != nil {
		return nil, err
	}
	if other, _ := s.mountOf(name); name != "" && other != disk {
		name = ""
	}
	var f *os.File
	if name != "" {
		f, err = os.Open(name)
	} else {
		f, err = nameless(path)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	facts := diskFacts{File: name}
	direct, err := directio.Open(f, directio.Options{Path: directio.Direct})
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, fmt.Errorf("the file system does not read past the page cache: %w", err)
	} else if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, direct.Close()) }()
	facts.Direct = true
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return facts.read(ctx, direct, min(info.Size(), mostRead))
}

// read reads n bytes, or for a while, with two reads under way.
func (d diskFacts) read(ctx context.Context, f *directio.File, n int64) (diskFacts, error) {
	const readers = 2
	type done struct {
		bytes int64
		err   error
	}
	begin := time.Now()
	results := make(chan done, readers)
	for i := range int64(readers) {
		go func() {
			var total int64
			b, err := pagemem.Map(diskPiece + 2*directio.Align)
			if err != nil {
				results <- done{0, err}
				return
			}
			defer pagemem.Unmap(b)
			for at := i * diskPiece; at < n && time.Since(begin) < readTime && ctx.Err() == nil; at += readers * diskPiece {
				size := min(diskPiece, n-at)
				if _, err := f.Read(b, at, size); err != nil {
					results <- done{total, err}
					return
				}
				total += size
			}
			results <- done{total, nil}
		}()
	}
	var errs []error
	for range readers {
		r := <-results
		d.Bytes += r.bytes
		errs = append(errs, r.err)
	}
	d.Seconds = max(time.Since(begin), 1).Seconds()
	return d, errors.Join(errs...)
}

// virtual are folders whose files are on no disk.
var virtual = map[string]bool{"/proc": true, "/sys": true, "/dev": true, "/run": true}

// largeFile finds a file at path or below that is large enough, for a while; "" is
// none.
func largeFile(path string) (found string, err error) {
	begin := time.Now()
	err = filepath.WalkDir(path, func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil && name == path:
			return err
		case e != nil && e.IsDir() && virtual[name]:
			return fs.SkipDir
		case err != nil, time.Since(begin) > lookTime && !e.IsDir():
			return nil
		case time.Since(begin) > lookTime:
			return fs.SkipAll
		case !e.Type().IsRegular():
			return nil
		}
		if info, err := e.Info(); err == nil && info.Size() >= enoughFile {
			found = name
			return fs.SkipAll
		}
		return nil
	})
	return found, err
}

// nameless makes a file in path, or beside it, that is gone when it is closed.
func nameless(path string) (_ *os.File, err error) {
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		path = filepath.Dir(path)
	}
	f, err := os.CreateTemp(path, ".pinion-doctor-*")
	if err != nil {
		return nil, fmt.Errorf("no file of %s or more is there to read, and none can be written: %w", units.Bytes(enoughFile), err)
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	if err := os.Remove(f.Name()); err != nil { // so that it goes with this process
		return nil, err
	}
	b := make([]byte, 1<<20)
	state := uint64(1) // bytes that no disk compresses
	for range writtenFor / len(b) {
		for i := range b {
			state = state*6364136223846793005 + 1442695040888963407
			b[i] = byte(state >> 56)
		}
		if _, err := f.Write(b); err != nil {
			return nil, err
		}
	}
	return f, f.Sync()
}
