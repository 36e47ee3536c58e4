package shard

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestExpand(t *testing.T) {
	for pattern, want := range map[string]string{
		"a.tar":              "a.tar",
		"a-{0..3}.tar":       "a-0.tar a-1.tar a-2.tar a-3.tar",
		"a-{08..11}.tar":     "a-08.tar a-09.tar a-10.tar a-11.tar",
		"{9..10}":            "9 10",
		"{a,b}-{0..1}.tar":   "a-0.tar a-1.tar b-0.tar b-1.tar",
		"http://h/{00,x}/{}": "http://h/00/ http://h/x/",
	} {
		if list, err := expand(pattern); err != nil || strings.Join(list, " ") != want {
			t.Errorf("%s: %q, %v", pattern, list, err)
		}
	}
	for _, pattern := range []string{"a-{0..", "{3..1}", "{a..c}", "{0..}", "{0..99999999}", "{0..99999}{0..99999}", "{-1..3}"} {
		if list, err := expand(pattern); !errors.Is(err, ErrArgument) {
			t.Errorf("%s: %d names, %v", pattern, len(list), err)
		}
	}
}

func TestIs(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{
		"shards/a.tar", "shards/b.tar", "shards/a.tar.index", "shards/README", "photos/x.jpg", "photos/y.jpg", "photos/z/1.jpg", "photos/backup.tar",
		"one.TAR", "one.tgz", "odd{1..2}.tar", "x.npy",
	} {
		write(t, filepath.Join(dir, path), nil)
	}
	for location, want := range map[string]bool{
		"shards": true, "photos": false, "one.TAR": true, "one.tgz": false, "odd{1..2}.tar": true, "x.npy": false,
		"no-{0..3}.tar": true, "no-{0..3}.npy": false, "missing.tar": false, ".": false, "bad{": false,
	} {
		if Is(filepath.Join(dir, location)) != want {
			t.Errorf("%s: not %v", location, want)
		}
	}
	for location, want := range map[string]bool{"https://h/x": true, "HTTP://h": true, "ftp://h/x.tar": true, "http:/h": false} {
		if Is(location) != want {
			t.Errorf("%s: not %v", location, want)
		}
	}
}

func TestLocate(t *testing.T) {
	dir, _ := writeShards(t, 3, 1)
	write(t, filepath.Join(dir, ".hidden.tar"), nil)
	var want []string
	for _, name := range []string{"train-000.tar", "train-001.tar", "train-002.tar"} {
		want = append(want, filepath.Join(dir, name))
	}
	for _, location := range []string{dir, filepath.Join(dir, "train-{000..002}.tar")} {
		if list, err := locate(location); err != nil || !slices.Equal(list, want) {
			t.Errorf("%s: %q, %v", location, list, err)
		}
	}
	if _, err := locate(t.TempDir()); !errors.Is(err, ErrEmpty) {
		t.Errorf("an empty folder: %v", err)
	}
}
