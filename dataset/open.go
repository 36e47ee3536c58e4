package dataset

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pinion-gpu/pinion/dataset/internal/names"
	"github.com/pinion-gpu/pinion/internal/units"
)

// Open opens the dataset at a path: a file, a folder, or what else a format reads,
// such as a pattern train-{000..127}.tar or a URL of those. It tells the format
// by what is there: how a file begins, what files a folder has. Formats are those
// that are registered; import package dataset/all for all of this module.
//
// Options are for the format that is found, which fails with an [OptionError] for
// one that it does not have; nil is none. What is of no format fails with
// [ErrFormat], an empty folder with [ErrEmpty], and what is not there with
// [io/fs.ErrNotExist] and the names that come close. The end of ctx cuts short
// what takes long: listing folders, indexing shards, reading text, decompressing.
// The result may have to be closed: see [Close].
func Open(ctx context.Context, path string, opts Options) (Dataset, error) {
	at, err := look(ctx, path, opts)
	if err != nil {
		return nil, err
	}
	f, err := at.format(ctx)
	if err != nil {
		return nil, err
	}
	values, err := opts.valuesFor(f, path)
	if err != nil {
		return nil, err
	}
	ds, err := f.Open(ctx, at, values)
	if err != nil {
		return nil, err // and no nil pointer, which formats return by their own types
	}
	return ds, nil
}

// surest returns the format that is the surest to be the one, and how sure it is.
func (l *Location) surest() (best *Format, match Confidence) {
	list := Formats()
	for i := range list {
		if m := list[i].Sniff(l); m > match {
			best, match = &list[i], m
		}
	}
	return best, match
}

// format returns the format that opens what is there, or says why none does.
func (l *Location) format(ctx context.Context) (*Format, error) {
	if best, _ := l.surest(); best != nil {
		return best, nil
	}
	list := Formats()
	switch {
	case !l.Exists():
		return nil, notThere(l.path)
	case l.IsFolder():
		var kinds []string
		for _, f := range list {
			if f.Folder != nil {
				kinds = append(kinds, fmt.Sprintf("%s (%s)", f.Title, strings.Join(f.Folder, ", ")))
			}
		}
		return nil, fmt.Errorf("%s: %w: no %s in it and its sub-folders%s", l.path, ErrEmpty, strings.Join(kinds, ", no "), l.single(ctx))
	case l.Size() == 0:
		return nil, fmt.Errorf("%s: %w: a file of no bytes", l.path, ErrEmpty)
	}
	if len(list) == 1 { // bare samples, which is part of this package
		return nil, fmt.Errorf("%s: %w: no formats are registered; import package dataset/all", l.path, ErrFormat)
	}
	var titles []string
	for _, f := range list {
		if f.Name == "raw" {
			continue // any file can be that
		}
		titles = append(titles, f.Title)
	}
	for magic, tool := range map[string]string{"\x1f\x8b\x08": "gzip", "\x28\xb5\x2f\xfd": "zstd"} {
		if strings.HasPrefix(string(l.head), magic) {
			return nil, fmt.Errorf("%s: %w: compressed with %s, which is read of tars and NIfTI volumes; decompress it with %[3]s -d", l.path, ErrFormat, tool)
		}
	}
	return nil, fmt.Errorf("%s: %w: neither a folder nor one of %s; its %s begin with %q",
		l.path, ErrFormat, strings.Join(titles, ", "), units.Bytes(l.Size()), l.head[:min(len(l.head), 8)])
}

// single is advice where a folder holds files that are datasets of their own.
func (l *Location) single(ctx context.Context) string {
	const most = 20 // files to look at
	entries, _ := os.ReadDir(l.path)
	best, advice := NoMatch, ""
	for _, e := range names.First(entries, most) {
		if !e.Type().IsRegular() {
			continue
		}
		at, err := look(ctx, filepath.Join(l.path, e.Name()), nil)
		if err != nil {
			continue
		}
		if f, match := at.surest(); match > best {
			best, advice = match, fmt.Sprintf("; %s is a dataset of its own (%s): open that", at.path, f.Title)
		}
	}
	return advice
}

// notThere is the error for a path where there is nothing: with the names that
// come close to the first part of it that is missing.
func notThere(path string) error {
	_, err := os.Stat(path)
	if err == nil { // it just came
		err = &fs.PathError{Op: "stat", Path: path, Err: fs.ErrNotExist}
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	missing := filepath.Clean(path)
	entries, bad := os.ReadDir(filepath.Dir(missing))
	for bad != nil && filepath.Dir(missing) != missing {
		missing = filepath.Dir(missing)
		entries, bad = os.ReadDir(filepath.Dir(missing))
	}
	name := filepath.Base(missing) // itself a link that leads nowhere, perhaps
	others := slices.DeleteFunc(entryNames(entries), func(other string) bool { return other == name })
	if close := names.Closest(name, others); len(close) > 0 {
		return fmt.Errorf("%w; in %s there is %s", err, filepath.Dir(missing), names.Listed(close))
	}
	return err
}

func entryNames(entries []fs.DirEntry) (list []string) {
	const most = 10_000 // beyond that a hint takes too long
	for _, e := range names.First(entries, most) {
		list = append(list, e.Name())
	}
	return list
}
