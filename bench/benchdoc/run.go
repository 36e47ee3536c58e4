package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// run is one folder of results. Files are in the order of their names.
type run struct {
	name      string
	devices   []*devicesFile
	links     []*linkFile
	moves     []*movesFile
	turns     map[string][]*turnFile     // by what they are about
	compared  map[string][]*comparedFile // as turns
	replays   []*replayFile
	processes []*processesFile
	feeds     []*feedFile
	tunes     []*tuneFile
	managed   []*managedFile
	tiers     []*tierFile
	peers     []*peerFile
	pictures  []string // of plans: names of .svg files, without the extension
}

// provenance is what every document of pinion says about its origin.
type provenance struct {
	file string // name without ".json"

	MeasuredAt string `json:"measured_at"`
	Commit     string `json:"commit"`
	Platform   string `json:"platform"`
	CPUs       int    `json:"cpus"`
	Device     string `json:"device"`
	DeviceName string `json:"device_name"`
}

// notAvailable is a path or a row that a machine does not have.
type notAvailable struct {
	Name   string `json:"name"`
	By     string `json:"by"`
	Reason string `json:"reason"`
}

// writeNotAvailable writes each reason once, after all that it is the reason for.
func writeNotAvailable(w *strings.Builder, list []notAvailable) {
	names := map[string][]string{}
	for _, n := range list {
		name := n.Name
		if n.By != "" {
			name += " by " + n.By
		}
		names[n.Reason] = append(names[n.Reason], plain(name))
	}
	for _, n := range list {
		if names[n.Reason] != nil {
			fmt.Fprintf(w, "\nNot available: %s: %s\n", strings.Join(names[n.Reason], "; "), plain(n.Reason))
			delete(names, n.Reason)
		}
	}
}

// origin says on what and by which code something was measured.
func (p *provenance) origin() string {
	commit, changes, _ := strings.Cut(p.Commit, " ")
	if len(commit) > 12 {
		commit = commit[:12]
	}
	if changes != "" {
		commit += " " + changes
	}
	return plain(fmt.Sprintf("%d CPUs, %s, commit %s", p.CPUs, p.Platform, commit))
}

// loadRuns reads the folders of dir, the newest by name first. Without dir
// there are none.
func loadRuns(dir string) ([]*run, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var runs []*run
	for _, e := range slices.Backward(entries) {
		if !e.IsDir() {
			continue
		}
		dir := filepath.Join(dir, e.Name())
		if files, err := filepath.Glob(filepath.Join(dir, "*.json")); err != nil || files == nil {
			continue // only comparisons of two builds, see bench/compare.sh
		}
		r, err := loadRun(dir)
		if err != nil {
			return nil, err
		}
		runs = append(runs, r)
	}
	return runs, nil
}

func loadRun(dir string) (*run, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	// By name without the extension: "link" comes before "link-again".
	slices.SortFunc(files, func(a, b string) int { return strings.Compare(stem(a), stem(b)) })
	r := &run{name: filepath.Base(dir), turns: map[string][]*turnFile{}, compared: map[string][]*comparedFile{}}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if err := r.add(stem(path), data); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	pictures, err := filepath.Glob(filepath.Join(dir, "*.svg"))
	for _, path := range pictures {
		r.pictures = append(r.pictures, strings.TrimSuffix(filepath.Base(path), ".svg"))
	}
	return r, err
}

func stem(path string) string { return strings.TrimSuffix(filepath.Base(path), ".json") }

// add takes in one file. A file that is of no known kind is an error: a
// result must not get lost without a word.
func (r *run) add(name string, data []byte) error {
	var kind struct {
		Peer     string          `json:"peer"`
		What     string          `json:"what"`
		Commit   string          `json:"commit"` // of Pinion; peers have none
		Bulk     json.RawMessage `json:"bulk"`
		Copies   json.RawMessage `json:"copies"`
		Stages   json.RawMessage `json:"stages"`
		Devices  json.RawMessage `json:"devices"`
		Reserved json.RawMessage `json:"peak_reserved_bytes"`
		Trials   json.RawMessage `json:"trials"`
		Ways     json.RawMessage `json:"ways"`
		Pressure json.RawMessage `json:"pressure"`
	}
	if err := json.Unmarshal(data, &kind); err != nil {
		return err
	}
	switch {
	case turnKinds[kind.What].title != "":
		files := r.turns[kind.What]
		err := load(data, &files, func(f *turnFile) error { f.file = name; return f.check() })
		r.turns[kind.What] = files
		return err
	case comparedKinds[kind.What].title != "":
		files := r.compared[kind.What]
		err := load(data, &files, func(f *comparedFile) error { f.file = name; return f.check() })
		r.compared[kind.What] = files
		return err
	case kind.What == replays || kind.Reserved != nil:
		return load(data, &r.replays, func(f *replayFile) error { f.file = name; return f.check() })
	case kind.What == moves && kind.Commit != "":
		return load(data, &r.moves, func(f *movesFile) error { f.file = name; return f.check() })
	case kind.Peer != "":
		return load(data, &r.peers, func(f *peerFile) error { f.file = name; return f.check() })
	case kind.Bulk != nil:
		return load(data, &r.links, func(f *linkFile) error { f.file = name; return f.check() })
	case kind.Copies != nil:
		return load(data, &r.processes, func(f *processesFile) error { f.file = name; return f.check() })
	case kind.Trials != nil:
		return load(data, &r.tunes, func(f *tuneFile) error { f.file = name; return f.check() })
	case kind.Stages != nil:
		return load(data, &r.feeds, func(f *feedFile) error { f.file = name; return f.check() })
	case kind.Ways != nil:
		return load(data, &r.managed, func(f *managedFile) error { f.file = name; return f.check() })
	case kind.Pressure != nil:
		return load(data, &r.tiers, func(f *tierFile) error { f.file = name; return f.check() })
	case kind.Devices != nil:
		return load(data, &r.devices, func(f *devicesFile) error { f.file = name; return nil })
	}
	return errors.New("no known kind of result: neither of pinion bench link, bench managed, bench processes, bench tier, bench step, feed, tune, devices or replay, nor of bench/moves, bench/loop, bench/feeding, bench/folder, bench/outofcore, bench/weights or a peer")
}

// load decodes one file into a new element of list.
func load[T any](data []byte, list *[]*T, finish func(*T) error) error {
	f := new(T)
	if err := json.Unmarshal(data, f); err != nil {
		return err
	}
	*list = append(*list, f)
	return finish(f)
}

// checkSpread checks that a median is one. Extremes that are not known are
// zero.
func checkSpread(what string, value, least, most float64) error {
	if value <= 0 || least != 0 && least > value || most != 0 && most < value {
		return fmt.Errorf("%s: %g is not a median between %g and %g", what, value, least, most)
	}
	return nil
}
