package tar

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/file"
	"github.com/pinion-gpu/pinion/dataset/photos"
	"github.com/pinion-gpu/pinion/dataset/shard"
)

// PackOptions configures [Pack]. The zero value works.
type PackOptions struct {
	// Shards says how shards are cut and named. Its Classes are ignored: they
	// are those of the folder.
	Shards shard.WriterOptions
	// Progress, if set, is called behind each picture.
	Progress func(done, total int)
}

// Pack writes the pictures of a folder, as [dataset.OpenFolder] lists them, to
// tar shards in the folder dir, which must not exist or be empty. They stay in
// their order, the label of each is the number of its class, and the shards
// keep the names of the classes ([shard.View.Classes]). A dot within a file's
// name becomes "_", since the key of a sample has none. The same files give the
// same bytes. Nothing appears in dir before all is written.
//
// It fails with [dataset.ErrArgument] where dir is within the folder, of which it would be
// a class, and where two pictures would be one sample: a.jpg and a.png in one
// folder; and where the names of the classes take more than
// [shard.WriterOptions] allows, with [dataset.ErrTooLarge] or ErrArgument.
func Pack(ctx context.Context, folder, dir string, opts PackOptions) (err error) {
	if err := apart(folder, dir); err != nil {
		return err
	}
	f, err := photos.OpenFolder(ctx, folder)
	if err != nil {
		return err
	}
	shards := opts.Shards
	shards.Classes = f.Classes()
	w, err := shard.NewWriter(dir, shards)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Discard()) }()
	r, err := f.NewFileReader()
	if err != nil {
		return err
	}
	defer r.Close()
	var buffer file.Buffer
	packed := make(map[string]int, f.Len())
	for i := range f.Len() {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		content, err := buffer.Load(func(buf []byte) ([]byte, error) { return r.ReadFile(ctx, i, buf) })
		if err != nil {
			return err
		}
		key, extension, err := sampleName(folder, f.Name(i))
		if err != nil {
			return err
		}
		if other, ok := packed[key]; ok {
			return fmt.Errorf("%s: %w: would be in one sample with %s: both have the key %q", f.Name(i), dataset.ErrArgument, f.Name(other), key)
		}
		packed[key] = i
		label := strconv.AppendInt(nil, int64(f.Label(i)), 10)
		if err := w.Write(key, shard.Part{Extension: extension, Content: content}, shard.Part{Extension: "cls", Content: label}); err != nil {
			return err
		}
		if opts.Progress != nil {
			opts.Progress(i+1, f.Len())
		}
	}
	return w.Close()
}

// apart fails where dir is within the folder.
func apart(folder, dir string) error {
	inner, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	outer, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	if rel, err := filepath.Rel(outer, inner); err == nil && filepath.IsLocal(rel) {
		return fmt.Errorf("%s: %w: it is inside %s, the folder to pack", dir, dataset.ErrArgument, folder)
	}
	return nil
}

// sampleName returns the key of a file of a folder in a shard, and its
// extension.
func sampleName(folder, file string) (key, extension string, err error) {
	path, err := filepath.Rel(folder, file)
	if err != nil {
		return "", "", err
	}
	extension = filepath.Ext(path)
	parent, base := filepath.Split(strings.TrimSuffix(path, extension))
	return filepath.ToSlash(parent) + strings.ReplaceAll(base, ".", "_"), strings.ToLower(extension[1:]), nil
}
