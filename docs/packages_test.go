package docs_test

import (
	"bytes"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPackageSizes: no package is much larger than CONTRIBUTING.md allows. Neither tests
// nor generated files count. What is up to a tenth above is only said, so that two
// changes that are fine by themselves do not fail together.
func TestPackageSizes(t *testing.T) {
	const mostFiles, mostLines = 25, 4000
	if rule := "25 files or 4,000 lines"; !strings.Contains(read(t, "../CONTRIBUTING.md"), rule) {
		t.Errorf("CONTRIBUTING.md does not say %q", rule)
	}
	generated := regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)
	files, lines := map[string]int{}, map[string]int{}
	forSources(t, func(dir string, source []byte) {
		if !generated.Match(source) {
			files[dir]++
			lines[dir] += bytes.Count(source, []byte("\n"))
		}
	})
	if files["../device"] == 0 {
		t.Fatalf("no files found: %v", files)
	}
	for dir, n := range files {
		if n <= mostFiles && lines[dir] <= mostLines {
			continue
		}
		say := t.Logf
		if 10*n > 11*mostFiles || 10*lines[dir] > 11*mostLines {
			say = t.Errorf
		}
		say("%s has %d files and %d lines: move an idea of it to a package of its own", dir, n, lines[dir])
	}
}

// TestPackageComments: each package says what it is.
func TestPackageComments(t *testing.T) {
	said := map[string]bool{}
	forSources(t, func(dir string, source []byte) {
		file, err := parser.ParseFile(token.NewFileSet(), "", source, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Errorf("%s: %v", dir, err)
			return
		}
		said[dir] = said[dir] || file.Doc != nil
	})
	if !said["../device"] {
		t.Fatalf("no comments found: %v", said)
	}
	for dir, yes := range said {
		if !yes {
			t.Errorf("%s has no package comment", dir)
		}
	}
}

// forSources calls fn for each Go file of the project that is no test.
func forSources(t *testing.T, fn func(dir string, source []byte)) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		switch {
		case entry.IsDir():
			if path != ".." && strings.HasPrefix(name, ".") || name == "testdata" {
				return fs.SkipDir
			}
			return nil
		case !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		source, err := os.ReadFile(path)
		if err == nil {
			fn(filepath.Dir(path), source)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
