package docs_test

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	_ "github.com/pinion-gpu/pinion/dataset/all"
	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/all"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/samplephotos"
	"github.com/pinion-gpu/pinion/loader"
)

func feed(ctx context.Context, dir string) error {
	dev, err := device.Open("auto") // a GPU, or the host where there is none
	if err != nil {
		return err
	}
	defer dev.Close()
	photos, err := dataset.Open(ctx, dir, dataset.Options{})
	if err != nil {
		return err
	}
	ld, err := loader.New(dev, photos, loader.Options{Batch: 64, Shuffle: true, DType: dtype.BF16})
	if err != nil {
		return err
	}
	defer ld.Close()
	for b, err := range ld.All(ctx) {
		if err != nil {
			return err
		}
		fmt.Println(b.Shape, b.DType) // b.Data is device memory: work on it here
		if err := b.Release(); err != nil {
			return err
		}
	}
	return nil
}

// Example is the program of README.md on a folder of sample photos.
func Example() {
	dir, err := os.MkdirTemp("", "pinion-docs")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := samplephotos.Make(context.Background(), filepath.Join(dir, "photos"), 8, nil); err != nil {
		log.Fatal(err)
	}
	if err := feed(context.Background(), filepath.Join(dir, "photos")); err != nil {
		log.Fatal(err)
	}
	// Output: [8 3 224 224] bf16
}

// TestReadmeExample: the function in README.md is the one above.
func TestReadmeExample(t *testing.T) {
	source := read(t, "docs_test.go")
	_, function, _ := strings.Cut(source, "\nfunc feed(")
	function, _, ok := strings.Cut("func feed("+function, "\n}\n")
	if !ok || !strings.Contains(read(t, "../README.md"), "\n"+function+"\n}\n") {
		t.Error("README.md does not contain the function feed of this file as it is")
	}
}

// TestReadmeBegins: what Pinion looks like as a command, in Python and in Go comes
// before everything else.
func TestReadmeBegins(t *testing.T) {
	screen := strings.SplitAfterN(read(t, "../README.md"), "\n", 25)
	beginning := strings.Join(screen[:len(screen)-1], "")
	for _, want := range []string{"\npinion feed ", "\nloader = pinion.DataLoader(", "\nfor images, labels in loader:", "\nld, err := loader.New(", "\nfor b, err := range ld.All("} {
		if !strings.Contains(beginning, want) {
			t.Errorf("the first 24 lines of README.md have no %q", want)
		}
	}
}

// TestLinks: every relative link in the documents leads to a file or folder, and
// to a heading where it names one.
func TestLinks(t *testing.T) {
	var documents []string
	for _, pattern := range []string{"../*.md", "*.md", "guide/*.md", "../bench/*.md", "../examples/*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, found...)
	}
	link := regexp.MustCompile(`\]\(([^)#:]*)(#[^)]*)?\)`)
	code := regexp.MustCompile("(?ms)^```.*?^```$")
	links := 0
	for _, document := range documents {
		for _, match := range link.FindAllStringSubmatch(code.ReplaceAllString(read(t, document), ""), -1) {
			links++
			target := filepath.Join(filepath.Dir(document), match[1])
			if match[1] == "" {
				target = document
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %v", document, err)
			} else if match[2] != "" && !anchors(t, target)[match[2]] {
				t.Errorf("%s: no heading for %s in %s", document, match[2], target)
			}
		}
	}
	if links == 0 {
		t.Errorf("no links in %v", documents)
	}
}

var update = flag.Bool("update", false, "write the table of formats into guide/datasets.md")

// TestFormats: the guide's table of formats is that of the registry.
func TestFormats(t *testing.T) {
	const path, begin, end = "guide/datasets.md", "<!-- formats -->\n\n", "\n<!-- /formats -->"
	text := read(t, path)
	before, rest, _ := strings.Cut(text, begin)
	_, after, ok := strings.Cut(rest, end)
	want := before + begin + dataset.FormatTable() + end + after
	switch {
	case !ok:
		t.Fatalf("%s has no %q and %q", path, begin, end)
	case text == want:
	case *update:
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s is out of date; go generate ./docs writes it", path)
	}
}

// TestDependencies: dependencies.md lists every module of go.mod with its
// version.
func TestDependencies(t *testing.T) {
	modules := regexp.MustCompile(`(?m)^\t(\S+) (v\S+)`).FindAllStringSubmatch(read(t, "../go.mod"), -1)
	if len(modules) == 0 {
		t.Fatal("no modules in go.mod")
	}
	text := read(t, "dependencies.md")
	for _, m := range modules {
		if !strings.Contains(text, "| `"+m[1]+"` | "+m[2]+" |") {
			t.Errorf("dependencies.md does not list %s %s", m[1], m[2])
		}
	}
}

// anchors are those of the headings of a document, as GitHub makes them.
func anchors(t *testing.T, path string) map[string]bool {
	heading := regexp.MustCompile(`(?m)^#+ (.*)$`)
	dropped := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	found := map[string]bool{}
	for _, match := range heading.FindAllStringSubmatch(read(t, path), -1) {
		text := dropped.ReplaceAllString(strings.ToLower(match[1]), "")
		found["#"+strings.ReplaceAll(text, " ", "-")] = true
	}
	return found
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
