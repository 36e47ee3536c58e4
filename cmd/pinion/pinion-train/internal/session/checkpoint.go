package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/train"
	"github.com/gomlx/gomlx/ml/train/metric"
	"github.com/gomlx/gomlx/ml/train/optimizer"

	"github.com/pinion-gpu/pinion/gomlx/scaling"
	"github.com/pinion-gpu/pinion/internal/atomicfile"
	"github.com/pinion-gpu/pinion/internal/errs"
	"github.com/pinion-gpu/pinion/loader"
	"github.com/pinion-gpu/pinion/safetensors"
)

// ErrCheckpoint says that a checkpoint does not go with the model or the data.
var ErrCheckpoint = errors.New("another training's checkpoint")

// FileName is the file of a checkpoint's folder: weights, the optimizer's state, and, in the
// header, everything else. It is one file, so that it is whole at any time.
const FileName = "checkpoint.safetensors"

// metadata is the key in the header under which the state is.
const metadata = "pinion_train"

// saved is what a checkpoint has beside tensors.
type saved struct {
	Version int          `json:"version"`
	Steps   int          `json:"steps"`
	Config  Config       `json:"config"`
	Loader  loader.State `json:"loader"`
	Digest  string       `json:"data_digest,omitempty"` // Options.Digest
}

// version of the format.
const version = 1

// CheckFolder fails if no checkpoint can be written to a folder, which need not be there
// yet.
func CheckFolder(folder string) error {
	at := filepath.Clean(folder)
	info, err := os.Stat(at)
	for errors.Is(err, os.ErrNotExist) && filepath.Dir(at) != at {
		at = filepath.Dir(at)
		info, err = os.Stat(at)
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%w: %s is a file, and not a folder", errs.ErrArgument, at)
	}
	file, err := atomicfile.Create(filepath.Join(at, FileName), 0o666)
	if err != nil {
		return err
	}
	return file.Discard()
}

// Save writes a checkpoint behind the last step to a folder, which it makes. One that is
// there is replaced when the new one is complete. Of several ranks, the first writes it, and
// Save fails on all if that fails.
func (s *Session) Save(folder string) error {
	if s.ranks == nil {
		return s.save(folder)
	}
	return s.ranks.Do("the checkpoint", func() error {
		write := s.give
		if s.ranks.World.Rank == 0 {
			write = func() error { return s.save(folder) }
		}
		if err := write(); err != nil {
			return err
		}
		return s.ranks.Comm.Barrier(context.Background())
	})
}

func (s *Session) save(folder string) error {
	if s.broken {
		return fmt.Errorf("step %d ended half-way, and there is no checkpoint of that", s.steps+1)
	}
	if s.steps == 0 {
		return errors.New("there is no checkpoint before the first step")
	}
	text, err := json.Marshal(saved{version, s.steps, s.config, s.state, s.digest})
	if err != nil {
		return err
	}
	var list []safetensors.Tensor
	variables := s.variables()
	for _, v := range variables {
		t, ok := fileTypes[v.DType()]
		if !ok {
			return fmt.Errorf("%w: %s has elements of type %v", errors.ErrUnsupported, v.Path(), v.DType())
		}
		whole, shape := v.Shape(), []int64{}
		if s.updates != nil {
			whole = s.updates.WholeShape(v)
		}
		for _, d := range whole.Dimensions {
			shape = append(shape, int64(d))
		}
		list = append(list, safetensors.Tensor{Name: v.Path(), DType: t, Shape: shape})
	}
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	w, err := safetensors.Create(filepath.Join(folder, FileName), list, safetensors.WriterOptions{Metadata: map[string]string{metadata: string(text)}})
	if err != nil {
		return err
	}
	for _, v := range variables {
		if err := s.read(v, func(data []byte) error { return w.Write(v.Path(), data) }); err != nil {
			return errors.Join(err, w.Discard())
		}
	}
	if err := w.Commit(); err != nil {
		return errors.Join(err, w.Discard())
	}
	return nil
}

// give gives the first rank what it writes of this one.
func (s *Session) give() error {
	for _, v := range s.variables() {
		if err := s.updates.Read(s.ranks.Comm, v, nil); err != nil {
			return err
		}
	}
	return nil
}

// variables are those of a checkpoint, in the order of all ranks.
func (s *Session) variables() (list []*model.Variable) {
	for v := range s.store.IterVariables() {
		if !transient(v.Path()) {
			list = append(list, v)
		}
	}
	return list
}

// read gives use a value, of all ranks together; the copy on the host goes again.
func (s *Session) read(v *model.Variable, use func(data []byte) error) error {
	if s.updates != nil {
		return s.updates.Read(s.ranks.Comm, v, use)
	}
	value, err := v.Value()
	if err != nil {
		return err
	}
	onDevice := !value.IsLocal()
	readErr := value.ConstBytes(func(data []byte) { err = use(data) })
	if onDevice {
		value.FinalizeLocal()
	}
	return errors.Join(readErr, err)
}

// part is what this rank keeps of a value.
func (s *Session) part(path string, value *tensors.Tensor) (*tensors.Tensor, error) {
	if s.updates == nil || !strings.HasPrefix(path, "/"+optimizer.AdamDefaultScope+"/") {
		return value, nil
	}
	return s.updates.Part(s.ranks.Comm, path, value)
}

// transient says whether a variable is made anew: sums of gradients are 0 between two
// steps, the learning rate is an option, and moving averages of losses, whose names
// change, are not shown.
func transient(path string) bool {
	for _, scope := range []string{train.AccumulatedGradientsScope, metric.Scope} {
		if strings.HasPrefix(path, "/"+scope+"/") {
			return true
		}
	}
	return path == "/"+optimizer.Scope+"/"+optimizer.ParamLearningRate
}

var fileTypes = map[dtypes.DType]safetensors.DType{
	dtypes.Float32:  safetensors.F32,
	dtypes.Float64:  safetensors.F64,
	dtypes.Float16:  safetensors.F16,
	dtypes.BFloat16: safetensors.BF16,
	dtypes.Int32:    safetensors.I32,
	dtypes.Int64:    safetensors.I64,
	dtypes.Uint64:   safetensors.U64,
}

// Checkpoint is an open checkpoint.
type Checkpoint struct {
	path  string
	file  *safetensors.File
	state saved
}

// OpenCheckpoint opens that of a folder. The caller closes it.
func OpenCheckpoint(folder string) (*Checkpoint, error) {
	path := filepath.Join(folder, FileName)
	if info, err := os.Stat(folder); err == nil && !info.IsDir() {
		return nil, fmt.Errorf("%w: %s is a file; a checkpoint is a folder with %s in it", errs.ErrArgument, folder, FileName)
	}
	file, err := safetensors.OpenFile(path)
	if err != nil {
		return nil, err
	}
	c := &Checkpoint{path: path, file: file}
	text, ok := file.Metadata[metadata]
	if !ok {
		err = errors.New("there are weights, but not the state of a training")
	} else if err = json.Unmarshal([]byte(text), &c.state); err == nil && c.state.Version != version {
		err = fmt.Errorf("its version is %d; this program reads version %d", c.state.Version, version)
	} else if was := c.state; err == nil && min(was.Steps, was.Config.Batch, was.Config.Accumulate) < 1 {
		err = fmt.Errorf("it is of %d steps of %d batches of %d", was.Steps, was.Config.Accumulate, was.Config.Batch)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w: %w", path, ErrCheckpoint, err), file.Close())
	}
	return c, nil
}

// HasCheckpoint reports whether there is a checkpoint in a folder.
func HasCheckpoint(folder string) (bool, error) {
	_, err := os.Stat(filepath.Join(folder, FileName))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Config is that of the training.
func (c *Checkpoint) Config() Config { return c.state.Config }

// Steps is how many were done.
func (c *Checkpoint) Steps() int { return c.state.Steps }

// Close closes the file.
func (c *Checkpoint) Close() error { return c.file.Close() }

// differs fails with ErrCheckpoint, and what differs, if a training with the other
// configuration would not go on from here. The learning rate may differ.
func (c Config) differs(other Config) error {
	var list []string
	compare := func(what string, old, new any) {
		if old != new {
			list = append(list, fmt.Sprintf("%s %v, not %v", what, old, new))
		}
	}
	compare("model", c.Model, other.Model)
	if c.Model == other.Model { // else the rest is of no interest
		compare("layers", c.Layers, other.Layers)
		compare("width", c.Width, other.Width)
		compare("heads", c.Heads, other.Heads)
		compare("context", c.Context, other.Context)
		compare("image size", c.ImageSize, other.ImageSize)
		compare("classes", c.Classes, other.Classes)
		compare("batch, of all ranks together,", c.Batch*max(c.Ranks, 1), other.Batch*max(other.Ranks, 1))
		compare("accumulate", c.Accumulate, other.Accumulate)
		compare("seed", c.Seed, other.Seed)
	}
	if len(list) == 0 {
		return nil
	}
	return fmt.Errorf("%w: it has %s", ErrCheckpoint, strings.Join(list, "; "))
}

// source gives a model's variables the values of a checkpoint, as its graph asks for them.
type source struct {
	*Checkpoint
	part    func(path string, value *tensors.Tensor) (*tensors.Tensor, error) // that is kept of it
	given   map[string]bool
	missing []string
	err     error
}

var _ model.Loader = (*source)(nil)

func newSource(c *Checkpoint, part func(path string, value *tensors.Tensor) (*tensors.Tensor, error)) *source {
	return &source{Checkpoint: c, part: part, given: map[string]bool{}}
}

// LoadVariable implements [model.Loader].
func (s *source) LoadVariable(_ *model.Store, path string) (*tensors.Tensor, bool) {
	if transient(path) || s.given[path] {
		return nil, false
	}
	i := slices.IndexFunc(s.file.Tensors, func(t safetensors.Tensor) bool { return t.Name == path })
	if i < 0 {
		if !optional(path) {
			s.missing = append(s.missing, path)
		}
		return nil, false
	}
	t, err := read(s.file.Tensors[i])
	if err == nil {
		t, err = s.part(path, t)
	}
	if err != nil {
		s.err = errors.Join(s.err, err)
		return nil, false
	}
	s.given[path] = true
	return t, true
}

func read(t safetensors.Tensor) (value *tensors.Tensor, err error) {
	for d, name := range fileTypes {
		if name != t.DType {
			continue
		}
		dims := make([]int, len(t.Shape))
		for i, n := range t.Shape {
			dims[i] = int(n)
		}
		value = tensors.FromShape(shapes.Make(d, dims...))
		fillErr := value.MutableBytes(func(data []byte) { _, err = io.ReadFull(t.Data(), data) })
		return value, errors.Join(fillErr, err)
	}
	return nil, fmt.Errorf("%w: %s has elements of type %v", errors.ErrUnsupported, t.Name, t.DType)
}

// DeleteVariable implements [model.Loader].
func (s *source) DeleteVariable(*model.Store, string) error { return nil }

// optional says whether a model of the same configuration may have a variable or not: the
// state of random numbers is asked for if some are drawn, the scale of losses in float16.
func optional(path string) bool {
	return path == "/"+model.RNGStateVariableName || strings.HasPrefix(path, "/"+scaling.Scope+"/")
}

// check fails with ErrCheckpoint unless the model took all tensors that it needs, and no
// others.
func (s *source) check() error {
	var unused []string
	for _, t := range s.file.Tensors {
		if !s.given[t.Name] && !optional(t.Name) {
			unused = append(unused, t.Name)
		}
	}
	err := s.err
	if len(s.missing) > 0 {
		err = errors.Join(err, fmt.Errorf("%w: it has no %s", ErrCheckpoint, some(s.missing)))
	}
	if len(unused) > 0 {
		err = errors.Join(err, fmt.Errorf("%w: the model has no %s", ErrCheckpoint, some(unused)))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s.path, err)
	}
	return nil
}

// some is a list of names that is not too long.
func some(names []string) string {
	if len(names) <= 3 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s, and %d more", strings.Join(names[:3], ", "), len(names)-3)
}
