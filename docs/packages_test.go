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
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if path != ".." && strings.HasPrefix(name, ".") || name == "testdata" {
				return fs.SkipDir
			}
			return nil
		case !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		source, err := os.ReadFile(path)
		if err == nil && !generated.Match(source) {
			files[filepath.Dir(path)]++
			lines[filepath.Dir(path)] += bytes.Count(source, []byte("\n"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
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
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if path != ".." && strings.HasPrefix(name, ".") || name == "testdata" {
				return fs.SkipDir
			}
			return nil
		case !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.PackageClauseOnly|parser.ParseComments)
		if err == nil {
			said[filepath.Dir(path)] = said[filepath.Dir(path)] || file.Doc != nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if !said["../device"] {
		t.Fatalf("no comments found: %v", said)
	}
	for dir, yes := range said {
		if !yes {
			t.Errorf("%s has no package comment", dir)
		}
	}
}
