package cublaslt

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pinion-gpu/pinion/blas"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/cachefile"
	"github.com/pinion-gpu/pinion/internal/dl"
	"github.com/pinion-gpu/pinion/internal/stats"
)

const (
	mostCandidates = 8 // routines that are measured for a problem
	rounds         = 5 // of measurements, in which each routine has its turn
	launches       = 2 // that a measurement takes
)

// Tune implements [blas.Tuner].
func (m *multiplier) Tune(s device.Stream, g blas.Gemm) error {
	if err := m.tune(s, &g); err != nil {
		return fmt.Errorf("cublaslt: tune: %w", err)
	}
	return nil
}

func (m *multiplier) tune(s device.Stream, g *blas.Gemm) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, err := m.checked(s, g)
	switch {
	case err != nil || g.M == 0 || g.N == 0:
		return err
	case g.Beta != 0 && p.d.Bytes == 0:
		return fmt.Errorf("%w: C is its own addend, which would be another one each time", device.ErrArgument)
	}
	var r *routine
	err = m.native.WithContext(func() (err error) {
		r, err = m.routine(&p, g.Bias)
		return err
	})
	if err != nil || r.tuned {
		return err
	}
	var list []candidate
	err = m.native.WithContext(func() (err error) {
		list, err = m.candidates(r, &p, g.Bias)
		return err
	})
	if err != nil {
		return err
	}
	file, err := m.keptFile()
	if err != nil {
		return err
	}
	key := fmt.Sprint(p)
	if c, ok := readKept(file)[key]; ok {
		if i, ok := find(list, c); ok {
			r.algorithm, r.tuned = list[i].algorithm, true
			return nil
		}
	}
	times, err := m.measure(s, g, &p, r, list)
	if err != nil {
		return err
	}
	best := fastest(times)
	// Another process may have measured meanwhile: what is kept holds for both.
	kept := readKept(file)
	c, ok := kept[key]
	i, offered := find(list, c)
	if ok && offered {
		best = i
	} else {
		kept[key] = list[best].configuration
		if err := cachefile.Write(file, kept); err != nil {
			return err
		}
	}
	r.algorithm, r.tuned = list[best].algorithm, true
	return nil
}

// measure times routines in turn. Those that cannot run have no times.
func (m *multiplier) measure(s device.Stream, g *blas.Gemm, p *problem, r *routine, list []candidate) (times [][]time.Duration, err error) {
	start, err := m.dev.NewEvent(0)
	if err != nil {
		return nil, err
	}
	end, err := m.dev.NewEvent(0)
	if err != nil {
		return nil, errors.Join(err, start.Close())
	}
	defer func() { err = errors.Join(err, start.Close(), end.Close()) }()
	chosen := r.algorithm
	defer func() { r.algorithm = chosen }()
	times = make([][]time.Duration, len(list))
	for round := range 1 + rounds {
		for i := range list {
			if round > 0 && times[i] == nil {
				continue
			}
			r.algorithm = list[i].algorithm
			took, err := m.time(s, g, p, r, start, end)
			switch {
			case errors.Is(err, device.ErrNotSupported):
				times[i] = nil
			case err != nil:
				return nil, err
			case round == 0: // warms up
				times[i] = []time.Duration{}
			default:
				times[i] = append(times[i], took)
			}
		}
	}
	return times, nil
}

// time is how long the launches of a routine take.
func (m *multiplier) time(s device.Stream, g *blas.Gemm, p *problem, r *routine, start, end device.Event) (time.Duration, error) {
	if err := s.Record(start); err != nil {
		return 0, err
	}
	for range launches {
		if err := m.launch(s, g, p, r); err != nil {
			return 0, err
		}
	}
	if err := s.Record(end); err != nil {
		return 0, err
	}
	if err := end.Synchronize(); err != nil {
		return 0, err
	}
	return end.Since(start)
}

// fastest is the routine with the least median time. The library's first choice stays
// where nothing is clearly better, so that noise decides little.
func fastest(times [][]time.Duration) int {
	best := 0
	for i, t := range times {
		if len(t) == 0 {
			continue
		}
		switch {
		case len(times[best]) == 0:
			best = i
		case best == 0 && stats.Median(t) < stats.Median(times[0])*97/100,
			best != 0 && stats.Median(t) < stats.Median(times[best]):
			best = i
		}
	}
	return best
}

// keptFile is where choices are kept: for a version of the library and a kind of
// device.
func (m *multiplier) keptFile() (string, error) {
	info := m.dev.Info()
	return cachefile.Path("cublaslt", dl.VersionText(m.version), info.Name, fmt.Sprint(info.ComputeCapability, info.Multiprocessors))
}

// readKept returns the kept choices: configurations, by problem. A file that
// cannot be read has none.
func readKept(file string) map[string]configuration {
	kept := map[string]configuration{}
	data, err := cachefile.Read(file)
	if err != nil || json.Unmarshal(data, &kept) != nil || kept == nil {
		return map[string]configuration{}
	}
	return kept
}

var _ blas.Tuner = (*multiplier)(nil)
