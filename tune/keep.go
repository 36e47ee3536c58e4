package tune

import (
	"encoding/json"
	"errors"
	"fmt"
	"github.com/pinion-gpu/pinion/transfer/linkmodel"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/internal/cachefile"
	"github.com/pinion-gpu/pinion/loader"
)

// ErrNoResult: nothing was kept for this machine, device and dataset, or it
// can no longer be used.
var ErrNoResult = errors.New("no result kept")

// ErrNotSettled: the trials could not tell the leading settings apart.
var ErrNotSettled = errors.New("not settled")

// keptVersion changes when results or their meaning do.
const keptVersion = 6

// kept is a result and what it is good for.
type kept struct {
	Version int     `json:"version"`
	For     purpose `json:"for"`
	Budget  float64 `json:"budget_seconds"` // of the search
	Result  *Result `json:"result"`
}

// purpose is everything that a result depends on: with another one it is none.
type purpose struct {
	Machine linkmodel.Machine `json:"machine"`
	Device  string            `json:"device"` // its capacity too, where that is asked for
	Dataset identity          `json:"dataset"`
	Targets []identity        `json:"targets,omitempty"`
	Space   Space             `json:"space"`
	Step    float64           `json:"step_seconds"`
	Loader  loading           `json:"loader"`
	Link    time.Time         `json:"link_measured_at"` // of the model that staging goes by; zero: none
}

// loading is what of [loader.Options] changes how fast a loader is, but for what
// is searched for, and for code of the caller's own, which is not kept by.
type loading struct {
	DType         string         `json:"dtype"`
	Shuffle       bool           `json:"shuffle"`
	Rank          int            `json:"rank"`
	World         int            `json:"world"`
	DropLast      bool           `json:"drop_last"`
	Unordered     bool           `json:"unordered"`
	Pad           float64        `json:"pad"`
	PadTo         int            `json:"pad_to"`
	Mask          bool           `json:"mask"`
	Mean          []float64      `json:"mean,omitempty"`
	Std           []float64      `json:"std,omitempty"`
	Jitter        imaging.Jitter `json:"jitter"`
	Mixup         float64        `json:"mixup"`
	OnError       string         `json:"on_error"`
	SampleTimeout float64        `json:"sample_timeout_seconds"`
	DeviceBuffers int            `json:"device_buffers"`
	Decode        int            `json:"decode"` // where the space has no axis of it
	CPUShare      float64        `json:"cpu_share"`
	PinBudget     int64          `json:"pin_budget_bytes"`
	DeviceBudget  int64          `json:"device_budget_bytes,omitempty"`
}

func loadingOf(o loader.Options) loading {
	return loading{
		DType: o.DType.String(), Shuffle: o.Shuffle, Rank: o.Rank, World: o.World, DropLast: o.DropLast, Unordered: o.Unordered,
		Pad: o.Pad, PadTo: o.PadTo, Mask: o.Mask, Mean: o.Mean, Std: o.Std, Jitter: o.Jitter, Mixup: o.Mixup,
		OnError: fmt.Sprint(o.OnError), SampleTimeout: o.SampleTimeout.Seconds(), DeviceBuffers: o.DeviceBuffers,
		Decode: int(o.Decode), CPUShare: o.CPUShare, PinBudget: o.PinBudget, DeviceBudget: o.DeviceBudget,
	}
}

// identity tells datasets apart without reading them.
type identity struct {
	Kind      string   `json:"kind"`
	Samples   int      `json:"samples"`
	Spec      string   `json:"spec"`
	Transform []string `json:"transform,omitempty"` // of pictures
	Decoder   string   `json:"decoder,omitempty"`   // of pictures on the CPU: one is some times as fast as another
	Names     []string `json:"names"`               // of some samples
	Bytes     int64    `json:"bytes"`               // of their files
}

// looked is how many samples are looked at to tell a dataset.
const looked = 16

func identify(ds dataset.Dataset) identity {
	id := identity{Kind: fmt.Sprintf("%T", ds), Samples: ds.Len(), Spec: ds.Spec().String()}
	for _, t := range dataset.Transforms(ds) {
		if t != (imaging.Transform{}) {
			id.Transform, id.Decoder = append(id.Transform, t.String()), imaging.JPEGDecoder()
		}
	}
	n := min(looked, id.Samples)
	for i := range n {
		name := ds.Name(int(int64(i) * int64(id.Samples) / int64(n)))
		file := name
		if at := strings.LastIndexByte(name, '['); at > 0 { // "file.npy[17]"
			file = name[:at]
		}
		if info, err := os.Stat(file); err == nil {
			id.Bytes += info.Size()
			if whole, err := filepath.Abs(name); err == nil {
				name = whole // elsewhere the same name is another file
			}
		}
		id.Names = append(id.Names, name)
	}
	return id
}

// purposeOf is what a search with o is for.
func purposeOf(dev device.Device, ds dataset.Dataset, o Options) purpose {
	p := purpose{
		Machine: linkmodel.MachineOf(dev), Device: dev.Info().ID, Dataset: identify(ds), Space: o.space(dev), Step: o.StepTime.Seconds(),
		Loader: loadingOf(o.Loader),
	}
	for _, target := range o.Loader.Targets {
		p.Targets = append(p.Targets, identify(target))
	}
	if m, err := linkmodel.Load(dev); err == nil {
		p.Link = m.MeasuredAt
	}
	return p
}

// keepable fails for options that cannot be told from others: code of the
// caller's own. An exhaustive search is for now, not for later.
func (o *Options) keepable() error {
	l := o.Loader
	if o.Step != nil || o.Exhaustive || l.Sampler != nil || l.Batches != nil || l.Decide != nil {
		return fmt.Errorf("%w: results of a Step, a Sampler or a Decide, or of the whole grid, are not kept", device.ErrArgument)
	}
	return nil
}

// file is where the result for p is kept.
func (p purpose) file() (path, text string, err error) {
	data, err := json.Marshal(p)
	if err != nil {
		return "", "", err
	}
	path, err = cachefile.Path("tune", string(data))
	return path, string(data), err
}

// Load returns what [Feed] found with these options, as [Result.Keep] kept it
// in the user's cache directory. It fails with [ErrNoResult] when there is
// none for this machine, device, driver, model of the link (see
// [linkmodel.Load]), dataset, targets and options: a dataset is told by its
// kind, size and spec, and by the names and file sizes of some samples; one of
// pictures by its transform and [imaging.JPEGDecoder], too. A search
// with a larger budget than the one that was kept is another one. Searches with a
// Step, with a Sampler or a Decide of the loader, or an exhaustive one are
// never kept.
func Load(dev device.Device, ds dataset.Dataset, o Options) (*Result, error) {
	if err := o.keepable(); err != nil {
		return nil, fmt.Errorf("tune: %w: %w", ErrNoResult, err)
	}
	want := purposeOf(dev, ds, o)
	path, text, err := want.file()
	if err != nil {
		return nil, fmt.Errorf("tune: %w: %w", ErrNoResult, err)
	}
	data, err := cachefile.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("tune: %w: %s does not exist", ErrNoResult, path)
	}
	var k *kept
	if err == nil {
		k, err = parseKept(data)
	}
	if err == nil {
		err = k.is(text)
	}
	if asked := o.budget().Seconds(); err == nil && k.Budget < asked {
		err = fmt.Errorf("its search had %v s, and %v s are asked for", k.Budget, asked)
	}
	if err != nil {
		return nil, fmt.Errorf("tune: %w: %s: %w", ErrNoResult, path, err)
	}
	return k.Result, nil
}

// parseKept reads a file and checks it.
func parseKept(data []byte) (*kept, error) {
	var k kept
	if err := json.Unmarshal(data, &k); err != nil {
		return nil, err
	}
	switch {
	case k.Version != keptVersion:
		return nil, fmt.Errorf("version %d, not %d", k.Version, keptVersion)
	case k.Result == nil || !k.Result.Settled || k.Result.Best.Workers < 1 || k.Result.Best.Batch < 1 || len(k.Result.Settings) == 0:
		return nil, errors.New("it has no setting")
	}
	return &k, nil
}

// is fails where the file is for something else.
func (k *kept) is(want string) error {
	have, err := json.Marshal(k.For)
	if err == nil && string(have) != want {
		err = errors.New("it is for something else")
	}
	return err
}

// Keep writes the result where [Load] finds it, and returns the file. A result
// that is not settled fails with [ErrNotSettled]: it would be taken for one that is.
func (r *Result) Keep(dev device.Device, ds dataset.Dataset, o Options) (path string, err error) {
	if !r.Settled {
		return "", fmt.Errorf("tune: %w", ErrNotSettled)
	}
	if err := o.keepable(); err != nil {
		return "", fmt.Errorf("tune: %w", err)
	}
	p := purposeOf(dev, ds, o)
	if path, _, err = p.file(); err != nil {
		return "", err
	}
	return path, cachefile.Write(path, kept{keptVersion, p, o.budget().Seconds(), r})
}
