package shard

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// maxShards bounds what a pattern stands for.
const maxShards = 1 << 20

// remoteLocation reports whether a location is a URL of HTTP or HTTPS.
func remoteLocation(location string) bool {
	scheme, _, ok := strings.Cut(location, "://")
	return ok && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https"))
}

// Is reports whether a location is one of tar shards by its form: a URL, of
// which [Open] reads those of HTTP and HTTPS, a pattern with braces that is no
// file, a folder in which at least half of what is not hidden is .tar files and
// their indexes, or a file that is called .tar. [Open] looks at what is in them.
func Is(location string) bool {
	if remoteLocation(location) {
		return true
	}
	info, err := os.Stat(location)
	switch {
	case err != nil && strings.Contains(location, "://"):
		return true
	case err != nil:
		list, err := expand(location)
		return err == nil && list[0] != location && tarName(list[0])
	case info.IsDir():
		return folderOfShards(location)
	}
	return strings.EqualFold(filepath.Ext(location), ".tar")
}

func folderOfShards(dir string) bool {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	tars, indexes, others := 0, 0, 0
	for _, e := range entries {
		switch name := strings.ToLower(e.Name()); {
		case strings.HasPrefix(name, "."):
		case strings.HasSuffix(name, ".tar") && !e.IsDir():
			tars++
		case strings.HasSuffix(name, ".tar"+IndexSuffix):
			indexes++
		default:
			others++
		}
	}
	return tars > 0 && tars+indexes >= others
}

// tarName reports whether a file is called as a tar is, compressed or not.
func tarName(path string) bool {
	name := strings.ToLower(filepath.Base(path))
	for _, end := range []string{".tar", ".tgz", ".tar.gz", ".tar.zst", ".tar.xz", ".tar.bz2"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}

// locate returns the shards that a location stands for, in order.
func locate(location string) ([]string, error) {
	if remoteLocation(location) {
		u, err := url.Parse(location)
		if err != nil {
			return nil, fmt.Errorf("%w: not a URL: %w", ErrArgument, withoutURL(err))
		}
		list, err := expand(location)
		if err != nil {
			return nil, fmt.Errorf("%s%s: %w", u.Host, u.Path, err) // braces as they are
		}
		return list, nil
	}
	info, err := os.Stat(location)
	if err != nil {
		if scheme, _, url := strings.Cut(location, "://"); url {
			return nil, fmt.Errorf("%.20s://…: %w: shards are read by http and https, and as files", scheme, ErrFormat)
		}
		list, bad := expand(location)
		switch {
		case bad != nil:
			return nil, fmt.Errorf("%s: %w", location, bad)
		case list[0] != location:
			return list, nil
		}
		return nil, err
	}
	if !info.IsDir() {
		return []string{location}, nil
	}
	list, err := listFolder(location)
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("%s: %w: no .tar files in this folder", location, ErrEmpty)
	}
	return list, err
}

// listFolder lists the shards in a folder by name.
func listFolder(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var list []string
	for _, e := range entries {
		if strings.HasSuffix(strings.ToLower(e.Name()), ".tar") && !strings.HasPrefix(e.Name(), ".") && !e.IsDir() {
			list = append(list, filepath.Join(dir, e.Name()))
		}
	}
	return list, nil
}

// expand returns what a pattern stands for, the leftmost braces varying
// slowest: {000..127} is numbers of as many digits, {a,b} alternatives. Text
// without braces stands for itself. Errors do not show the pattern: a URL may
// hold a password or a signature.
func expand(pattern string) ([]string, error) {
	before, rest, ok := strings.Cut(pattern, "{")
	if !ok {
		return []string{pattern}, nil
	}
	inside, after, ok := strings.Cut(rest, "}")
	if !ok {
		return nil, fmt.Errorf("%w: { without }", ErrArgument)
	}
	choices := strings.Split(inside, ",")
	if first, last, ok := strings.Cut(inside, ".."); ok {
		var err error
		if choices, err = numbers(first, last); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrArgument, err)
		}
	}
	tails, err := expand(after)
	if err != nil {
		return nil, err
	}
	if len(choices) > maxShards/len(tails) {
		return nil, fmt.Errorf("%w: braces that stand for %d times %d names, the limit is %d", ErrArgument, len(choices), len(tails), maxShards)
	}
	list := make([]string, 0, len(choices)*len(tails))
	for _, c := range choices {
		for _, tail := range tails {
			list = append(list, before+c+tail)
		}
	}
	return list, nil
}

// numbers returns first to last with leading zeros as they have.
func numbers(first, last string) ([]string, error) {
	from, err := strconv.ParseUint(first, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("%q is not a number", first)
	}
	to, err := strconv.ParseUint(last, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("%q is not a number", last)
	}
	if to < from || to-from >= maxShards {
		return nil, fmt.Errorf("%d..%d: want a last number from the first on, and at most %d of them", from, to, maxShards)
	}
	width := 0
	if slices.ContainsFunc([]string{first, last}, func(s string) bool { return len(s) > 1 && s[0] == '0' }) {
		width = max(len(first), len(last))
	}
	var list []string
	for n := from; n <= to; n++ {
		list = append(list, fmt.Sprintf("%0*d", width, n))
	}
	return list, nil
}
