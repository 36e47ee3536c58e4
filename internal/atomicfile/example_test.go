package atomicfile_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/pinion-gpu/pinion/internal/atomicfile"
)

// A file that is written piece by piece: whoever reads path finds all of it, or
// what was there before.
func ExampleCreate() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "state.json")
	write := func() error {
		f, err := atomicfile.Create(path, 0o644)
		if err != nil {
			return err
		}
		defer f.Discard()
		if _, err := fmt.Fprintln(f, "{}"); err != nil {
			return err
		}
		return f.Commit()
	}
	fmt.Println(write())
	text, err := os.ReadFile(path)
	fmt.Printf("%q %v\n", text, err)
	// Output:
	// <nil>
	// "{}\n" <nil>
}
