package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/flags"
	"github.com/pinion-gpu/pinion/internal/errs"
)

// Advise adds advice to the error of a file that does not exist.
func Advise(err error, advice string) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fmt.Errorf("%w; %s", err, advice)
}

// ErrorText is what a person reads of an error. Of a file that does not exist it
// says what is missing, and what may have been meant, instead of which system
// call failed. That an argument is bad says the rest of its error.
func ErrorText(err error) string {
	text := strings.ReplaceAll(err.Error(), errs.ErrArgument.Error()+": ", "")
	var path *fs.PathError
	if errors.As(err, &path) && errors.Is(path.Err, fs.ErrNotExist) {
		hinted := strings.Contains(text, "; in "+filepath.Dir(path.Path)+" there ")
		text = strings.Replace(text, path.Error(), whatIsMissing(path.Path, !hinted), 1)
	}
	return text
}

// whatIsMissing says what is not there of a path: its folder, or the file, with
// the name that may have been meant if guess is set.
func whatIsMissing(path string, guess bool) string {
	if path == "" {
		return "an empty path names nothing"
	}
	if to, err := os.Readlink(path); err == nil {
		return fmt.Sprintf("%s is a link to %s, which does not exist", path, to)
	}
	dir := filepath.Dir(path)
	if _, err := os.Stat(dir); err != nil {
		return fmt.Sprintf("the folder %s does not exist", dir)
	}
	what := path + " does not exist"
	if near := nearbyName(dir, filepath.Base(path)); guess && near != "" {
		return what + fmt.Sprintf(" (did you mean %s?)", filepath.Join(dir, near))
	}
	if dir == "." {
		if here, err := os.Getwd(); err == nil {
			return what + " in " + here
		}
	}
	return what
}

// nearbyName is the name in a folder that was most likely meant; "" if none is
// like it.
func nearbyName(dir, name string) string {
	const most = 1000 // names to compare
	f, err := os.Open(dir)
	if err != nil {
		return ""
	}
	defer f.Close()
	names, _ := f.Readdirnames(most)
	return flags.Nearest(name, names)
}
