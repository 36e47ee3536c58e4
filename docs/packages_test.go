package docs_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPackageSizes: no package is larger than CONTRIBUTING.md allows. Neither tests nor
// generated files count.
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
		if n > mostFiles || lines[dir] > mostLines {
			t.Errorf("%s has %d files and %d lines: move an idea of it to a package of its own", dir, n, lines[dir])
		}
	}
}
