package tune

import (
	"slices"
	"time"
)

// calibrate measures the model by a few runs: several numbers of workers for
// each place of decoding, one run for each other kind of memory, and one at
// each end of the other axes.
func (s *search) calibrate() error {
	decodes := s.space.Decode
	if len(decodes) == 0 {
		decodes = []string{""}
	}
	for _, decode := range decodes {
		var ofWorkers []StageCost // which the kind of memory does not change
		for _, pin := range s.space.Pin {
			v, err := s.calibrateVariant(decode, pin, ofWorkers)
			if err != nil {
				return err
			}
			if v == nil {
				continue // nothing of this kind fits
			}
			s.model.Variants = append(s.model.Variants, *v)
			ofWorkers = slices.DeleteFunc(slices.Clone(v.Stages), func(c StageCost) bool { return c.Where != worker })
		}
	}
	if err := s.calibratePrefetch(); err != nil {
		return err
	}
	return s.calibrateBatch()
}

// base is where the axes cross on which the model is calibrated.
func (s *search) base(decode string, pin bool) Setting {
	return Setting{
		Workers: s.space.Workers[len(s.space.Workers)-1], Batch: s.space.Batch[0],
		Prefetch: middle(s.space.Prefetch), Pin: pin, Decode: decode,
	}
}

// calibrateVariant measures the stages. Where those of the workers are not
// known yet, it does with several numbers of them.
func (s *search) calibrateVariant(decode string, pin bool, ofWorkers []StageCost) (*Variant, error) {
	v := &Variant{Decode: decode, Pin: pin, Stages: slices.Clone(ofWorkers), Correction: 1}
	counts := s.space.Workers
	if n := len(counts) - 1; ofWorkers != nil {
		counts = counts[n:]
	} else {
		counts = slices.Compact([]int{counts[0], counts[n/3], counts[n*2/3], counts[n]})
	}
	var last Measurement
	var lastAt Setting
	for _, workers := range counts {
		set := s.base(decode, pin)
		set.Workers = workers
		m, at, ok, err := s.calibrateAt(set)
		if err != nil {
			return nil, err
		}
		if ok {
			v.add(m.costs(workers), ofWorkers == nil)
			last, lastAt = m, at
		}
	}
	if lastAt == (Setting{}) {
		return nil, nil
	}
	if rate := v.rate(lastAt); rate > 0 {
		v.Correction = last.PerSecond() / rate
	}
	return v, nil
}

// calibratePrefetch corrects the model at the ends of that axis.
func (s *search) calibratePrefetch() error {
	var list []Value
	axis := s.space.Prefetch
	for _, n := range slices.Compact([]int{axis[0], middle(axis), axis[len(axis)-1]}) {
		set := s.crossing()
		set.Prefetch = n
		m, at, ok, err := s.calibrateAt(set)
		if err != nil {
			return err
		}
		if predicted := s.model.Rate(at); ok && at == set && predicted > 0 {
			list = append(list, Value{n, m.PerSecond() / predicted})
		}
	}
	s.model.Prefetch = list
	return nil
}

// calibrateBatch corrects the model at the ends of that axis, and measures how
// long the device uses batches there.
func (s *search) calibrateBatch() error {
	var list []Value
	axis := s.space.Batch
	for _, n := range slices.Compact([]int{axis[0], axis[len(axis)-1]}) {
		set := s.crossing()
		set.Batch = n
		m, at, ok, err := s.calibrateAt(set)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if predicted := s.model.Rate(at); predicted > 0 {
			list = append(list, Value{n, m.PerSecond() / predicted})
		}
		if !s.o.Step {
			continue
		}
		m, ok, err = s.try(at, true, calibrating)
		if err != nil {
			return err
		}
		if ok && m.Batches > 0 {
			s.model.Steps = append(s.model.Steps, Value{n, m.Step.Seconds() / float64(m.Batches)})
		}
	}
	s.model.Batch = list
	return nil
}

const calibrating = "calibrating"

// crossing is the base of the first variant that could be measured.
func (s *search) crossing() Setting {
	if len(s.model.Variants) == 0 {
		return s.base("", s.space.Pin[0])
	}
	v := s.model.Variants[0]
	return s.base(v.Decode, v.Pin)
}

// calibrateAt tries a setting, or the nearest one in prefetch that fits, for a
// calibration. It is not ok where none does. What was measured before is not
// measured again.
func (s *search) calibrateAt(set Setting) (m Measurement, at Setting, ok bool, err error) {
	near := slices.Clone(s.space.Prefetch)
	slices.SortStableFunc(near, func(a, b int) int { return abs(a-set.Prefetch) - abs(b-set.Prefetch) })
	for _, p := range near {
		at = set
		at.Prefetch = p
		if !slices.Contains(s.fits, at) {
			continue
		}
		if done := s.trials[at].free; len(done) > 0 {
			return done[0], at, true, nil
		}
		if m, ok, err = s.try(at, false, calibrating); err != nil || ok {
			return m, at, ok, err
		}
	}
	return m, Setting{}, false, nil
}

func abs(n int) int { return max(n, -n) }

func middle(list []int) int { return list[len(list)/2] }

// plausible is the field of the first race: what the model does not find
// slow, and no more than there is time for. One of each number of workers is
// among it, since that matters most and is predicted worst.
func (s *search) plausible() []*runner {
	const share = 0.75 // of the best: models err
	var all []*runner
	for _, set := range s.fits {
		r := s.runner(set)
		r.score, r.wait = s.model.Stepped(set)
		all = append(all, r)
	}
	best := slices.MinFunc(fed(all, s.o.Step), faster).score
	all = slices.DeleteFunc(all, func(r *runner) bool { return r.score < share*best })

	// A quarter of what is left is for the first round.
	room := max(int((s.o.Budget-s.spent)/4/s.trialTime()), fewest)
	if len(all) <= room {
		return all
	}
	var field []*runner
	byRank := ranked(all, s.o.Step)
	for _, w := range s.space.Workers {
		if i := slices.IndexFunc(byRank, func(r *runner) bool { return r.setting.Workers == w }); i >= 0 && len(field) < room {
			field = append(field, byRank[i])
		}
	}
	for _, r := range keep(all, room, s.o.Step) {
		if len(field) < room && !slices.Contains(field, r) {
			field = append(field, r)
		}
	}
	return field
}

// tries is how many trials there were.
func (s *search) tries() (n int) {
	for _, r := range s.trials {
		n += len(r.free) + len(r.stepped)
	}
	return n
}

// trialTime is what a trial took on average, what it does not measure included.
func (s *search) trialTime() time.Duration {
	return max(s.spent/time.Duration(max(s.tries(), 1)), time.Microsecond)
}
