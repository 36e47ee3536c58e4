package step

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/pinion-gpu/pinion/internal/cachefile"
	"github.com/pinion-gpu/pinion/internal/errs"
)

// Times are how long tasks take on a device. Tasks that compute the same of the same
// shapes take the same time. It is safe for concurrent use.
//
// Plans follow from times, and no two measurements are the same. Who wants the same plan
// again, in another process or on another day, writes times to a file.
type Times struct {
	device string
	tasks  map[string]taskTime
}

type taskTime struct {
	Kind    string  `json:"kind"` // see [Task.kind]
	Task    string  `json:"task"`
	Seconds float64 `json:"seconds"`
}

type timesFile struct {
	Device string     `json:"device_name"`
	Tasks  []taskTime `json:"tasks"`
}

// Device is the name of the device that they were measured on.
func (t *Times) Device() string { return t.device }

// Seconds is for [Options].Seconds. Tasks that were not measured take what
// [Speed.Estimate] says.
func (t *Times) Seconds(task *Task) float64 {
	if known, ok := t.tasks[task.kind()]; ok {
		return known.Seconds
	}
	return Speed{}.Estimate(task)
}

// Has reports whether a task was measured.
func (t *Times) Has(task *Task) bool {
	_, known := t.tasks[task.kind()]
	return known
}

// Write writes them to a file, as JSON, for [ReadTimes].
func (t *Times) Write(path string) error {
	f := timesFile{Device: t.device}
	for _, k := range t.tasks {
		f.Tasks = append(f.Tasks, k)
	}
	slices.SortFunc(f.Tasks, func(a, b taskTime) int { return cmp.Compare(a.Kind, b.Kind) })
	return cachefile.Write(path, f)
}

// ReadTimes reads what [Times.Write] has written.
func ReadTimes(path string) (*Times, error) {
	data, err := cachefile.Read(path)
	if err != nil {
		return nil, err
	}
	var f timesFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("step: times of tasks: %s: %w: %w", path, errs.ErrDamaged, err)
	}
	t := &Times{device: f.Device, tasks: map[string]taskTime{}}
	for _, k := range f.Tasks {
		if !(k.Seconds >= 0) || math.IsInf(k.Seconds, 1) {
			return nil, fmt.Errorf("step: times of tasks: %s: %w: %s takes %v s", path, errs.ErrDamaged, k.Task, k.Seconds)
		}
		t.tasks[k.Kind] = k
	}
	return t, nil
}

// kind stands for what a task computes of its inputs' shapes, but not which inputs they
// are: tasks of one kind take the same time.
func (t *Task) kind() string {
	h := sha256.New()
	for _, n := range t.Nodes {
		fmt.Fprintf(h, "%s;", n.Kind())
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}
