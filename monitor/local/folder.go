package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/pinion-gpu/pinion/internal/errs"
)

// variable names another folder, or is "off".
const variable = "PINION_TOP"

// ErrUnsafe: the folder for sockets is another user's, or open to others.
var ErrUnsafe = errors.New("unsafe folder")

// place is where a folder of sockets is, or could be.
type place struct {
	folder string
	// owned is a folder around it that has to be the user's own too, if it is to be
	// used: after sudo, XDG_RUNTIME_DIR may still be that of the user before.
	owned string
}

// places are those to offer in, the best first, and to search. There are none where
// it is switched off.
func places() ([]place, error) {
	switch v := os.Getenv(variable); {
	case !ownersKnown:
		return nil, fmt.Errorf("%w on this system: folders have no owners to check", errors.ErrUnsupported)
	case v == "off":
		return nil, nil
	case filepath.IsAbs(v):
		return []place{{folder: filepath.Clean(v)}}, nil
	case v != "":
		return nil, fmt.Errorf("%w: %s is %q: it may be \"off\", or the absolute path of a folder", errs.ErrArgument, variable, v)
	}
	uid := strconv.Itoa(os.Geteuid())
	var list []place
	add := func(p place) {
		for _, other := range list {
			if other.folder == p.folder {
				return
			}
		}
		list = append(list, p)
	}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		add(place{filepath.Join(dir, "pinion"), filepath.Clean(dir)})
	}
	if runtime.GOOS == "linux" {
		dir := filepath.Join("/run/user", uid)
		add(place{filepath.Join(dir, "pinion"), dir})
	}
	add(place{folder: filepath.Join("/tmp", "pinion-"+uid)})
	add(place{folder: filepath.Join(os.TempDir(), "pinion-"+uid)})
	return list, nil
}

// make makes the folder if it is not there, and checks it.
func (p place) make() error {
	if p.owned != "" {
		if err := check(p.owned); err != nil {
			return err
		}
	}
	if err := os.Mkdir(p.folder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return check(p.folder)
}

// check fails with ErrUnsafe if a folder may not be used. It may be in a folder that
// everybody can write to, so somebody else may have made it first.
func check(folder string) error {
	info, err := os.Lstat(folder)
	if err != nil {
		return err
	}
	owner, known := ownerOf(info)
	switch {
	case !info.IsDir():
		return fmt.Errorf("%w: %s is no folder but %s: remove it, or set %s to a folder of your own", ErrUnsafe, folder, kind(info.Mode()), variable)
	case known && owner != os.Geteuid():
		return fmt.Errorf("%w: %s is of user %d, this is user %d: set %s to a folder of your own", ErrUnsafe, folder, owner, os.Geteuid(), variable)
	case info.Mode().Perm()&0o077 != 0 && info.Mode()&fs.ModeSticky != 0: // such as /tmp, which has to stay so
		return fmt.Errorf("%w: %s is for everybody: set %s to a folder of your own", ErrUnsafe, folder, variable)
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("%w: %s is open to others (mode %03o): chmod 700 it", ErrUnsafe, folder, info.Mode().Perm())
	}
	return nil
}

func kind(m fs.FileMode) string {
	if m&fs.ModeSymlink != 0 {
		return "a symbolic link"
	}
	return "a file"
}

// reasons makes one error of why each place cannot be used. What is not there, though
// it was not promised, is left out if there is anything else to say.
func reasons(list []error) error {
	var text []string
	kinds := []any{}
	for _, err := range list {
		if !errors.Is(err, fs.ErrNotExist) || len(list) == 1 {
			text = append(text, err.Error())
			kinds = append(kinds, err)
		}
	}
	if len(kinds) == 0 {
		return errors.Join(list...)
	}
	if len(kinds) == 1 {
		return kinds[0].(error)
	}
	return fmt.Errorf(strings.TrimSuffix(strings.Repeat("%w; ", len(text)), "; "), kinds...)
}
