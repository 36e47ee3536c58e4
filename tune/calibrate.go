package tune

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// calibrate measures the model by a few runs: several numbers of workers for
// each place of decoding, and for staging, which shares the processors with
// them; one run for each other kind of memory; and one at each end of the other
// axes.
func (s *search) calibrate() error {
	for decode := range max(len(s.space.Decode), 1) {
		var ofWorkers []StageCost // which pinning does not change
		for pin := range s.space.Pin {
			for batch := range s.space.Batch {
				base := s.base(batch, pin, decode)
				if s.model.variant(base) != nil {
					continue
				}
				known := ofWorkers
				if base.staged() && !s.late() {
					known = nil
				}
				v, err := s.calibrateVariant(base, known)
				if err != nil {
					return err
				}
				switch {
				case v == nil:
					continue // nothing of this kind fits
				case v.Staged:
					err = s.calibrateStaging(v)
				default:
					ofWorkers = slices.DeleteFunc(slices.Clone(v.Stages), func(c StageCost) bool { return c.Where != worker })
				}
				if err != nil {
					return err
				}
				s.model.Variants = append(s.model.Variants, *v)
			}
		}
	}
	if err := s.calibratePrefetch(); err != nil {
		return err
	}
	return s.calibrateBatch()
}

// base is where the axes cross on which the model is calibrated, at a place of
// those that are not.
func (s *search) base(batch, pin, decode int) Setting {
	sp := s.space
	return sp.at(place{len(sp.Workers) - 1, batch, len(sp.Prefetch) / 2, pin, decode, len(sp.Copiers) / 2, len(sp.ChunkBytes) / 2})
}

// calibrateVariant measures the stages. Where those of the workers are not
// known yet, it does with several numbers of them. It is nil where nothing
// like base fits.
func (s *search) calibrateVariant(base Setting, ofWorkers []StageCost) (*Variant, error) {
	v := &Variant{Decode: base.Decode, Pin: base.Pin, Staged: base.staged(), Stages: slices.Clone(ofWorkers), Correction: 1}
	var counts []int
	for _, base.Workers = range s.space.Workers {
		if len(s.near(base)) > 0 {
			counts = append(counts, base.Workers)
		}
	}
	switch n := len(counts) - 1; {
	case n < 0:
		return nil, nil
	case ofWorkers != nil:
		counts = counts[n:]
	default:
		counts = slices.Compact([]int{counts[0], counts[n/3], counts[n*2/3], counts[n]})
	}
	// The most workers first: if there is no time for fewer, they are the base.
	var most Measurement
	for _, workers := range slices.Backward(counts) {
		if v.base != (Setting{}) && s.tooLate() {
			break
		}
		set := base
		set.Workers = workers
		m, at, ok, err := s.calibrateAt(set)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		v.add(m.costs(workers), ofWorkers == nil)
		if v.base == (Setting{}) {
			most, v.base = m, at
		}
	}
	if v.base == (Setting{}) {
		return nil, nil
	}
	if rate := v.rate(v.base); rate > 0 {
		v.Correction = most.PerSecond() / rate
	}
	return v, nil
}

// late reports whether trials take so long that calibration has had its share
// of the budget. What is not measured then is left to the races.
func (s *search) late() bool { return s.spent > s.o.Budget/3 }

// tooLate reports whether little more than the races' least share of the budget
// is left: each kind of memory is then measured once, and nothing else.
func (s *search) tooLate() bool { return s.spent > s.o.Budget*2/3 }

// fastest is the variant that does best where it was measured: the choice is
// likely to be one of its settings. There is one.
func (m *Model) fastest() *Variant {
	best := &m.Variants[0]
	for i := range m.Variants {
		if v := &m.Variants[i]; v.measured() > best.measured() {
			best = v
		}
	}
	return best
}

// measured is the rate at the base.
func (v *Variant) measured() float64 { return v.rate(v.base) * v.Correction }

// calibratePrefetch corrects the model at the ends of that axis, for the fastest
// variant and with the most workers, which shallow prefetch costs most. Fewer are
// then predicted slower than they are. Races and neighbours make up for that: see
// "shallow for many" among the pipelines of the tests.
func (s *search) calibratePrefetch() error {
	if len(s.model.Variants) == 0 || s.tooLate() {
		return nil
	}
	var list []Value
	base := s.model.fastest().base
	for _, n := range ends(s.space.Prefetch) {
		set := base
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
// long the device uses batches there. Larger batches may be of another kind;
// what they change is told by the costs of one.
func (s *search) calibrateBatch() error {
	if len(s.model.Variants) == 0 {
		return nil
	}
	var list []Value
	first := s.model.fastest()
	axis := s.space.Batch
	for _, n := range slices.Compact([]int{axis[0], axis[len(axis)-1]}) {
		p := s.space.place(first.base)
		p[1] = slices.Index(axis, n)
		m, at, ok, err := s.calibrateAt(s.space.at(p))
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if predicted := s.model.rate(first, at); predicted > 0 {
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
	for i := range s.model.Variants { // which may have been measured at other sizes
		v := &s.model.Variants[i]
		v.Correction /= interpolate(list, v.base.Batch, 1, math.Log)
	}
	s.model.Batch = list
	return nil
}

const calibrating = "calibrating"

// calibrateAt tries a setting, or the nearest one of its kind that fits, for a
// calibration. It is not ok where none does. What was measured before is not
// measured again.
func (s *search) calibrateAt(set Setting) (m Measurement, at Setting, ok bool, err error) {
	for _, at = range s.near(set) {
		if done := s.trials[at].free; len(done) > 0 {
			return done[0], at, true, nil
		}
		if s.over() {
			break
		}
		if m, ok, err = s.try(at, false, calibrating); err != nil || ok {
			return m, at, ok, err
		}
	}
	return m, Setting{}, false, nil
}

// near lists the settings that fit and are of the kind of set, with as many
// workers, from the nearest one on.
func (s *search) near(set Setting) (list []Setting) {
	for _, f := range s.fits {
		if f.Workers == set.Workers && f.Batch == set.Batch && f.Decode == set.Decode && f.Pin == set.Pin && f.staged() == set.staged() {
			list = append(list, f)
		}
	}
	slices.SortStableFunc(list, func(a, b Setting) int {
		return cmp.Or(
			cmp.Compare(abs(a.Prefetch-set.Prefetch), abs(b.Prefetch-set.Prefetch)),
			cmp.Compare(abs(a.Copiers-set.Copiers), abs(b.Copiers-set.Copiers)),
			cmp.Compare(abs(a.ChunkBytes-set.ChunkBytes), abs(b.ChunkBytes-set.ChunkBytes)))
	})
	return list
}

func abs[T int | int64](n T) T { return max(n, -n) }

// ends are the first value of an axis, the middle one and the last.
func ends[T int | int64](axis []T) []T {
	if len(axis) == 0 {
		return nil
	}
	return slices.Compact([]T{axis[0], axis[len(axis)/2], axis[len(axis)-1]})
}

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
	room := (s.o.Budget - s.spent) / 4
	if s.takes(all...) <= room {
		return all
	}
	var field []*runner
	var took time.Duration
	join := func(r *runner) {
		if t := s.takes(r); !slices.Contains(field, r) && (len(field) < fewest || took+t <= room) {
			field = append(field, r)
			took += t
		}
	}
	byRank := ranked(all, s.o.Step)
	for _, w := range s.space.Workers {
		if i := slices.IndexFunc(byRank, func(r *runner) bool { return r.setting.Workers == w }); i >= 0 {
			join(byRank[i])
		}
	}
	for _, r := range byTurns(all, s.o.Step) {
		join(r)
	}
	return field
}

// tries is how many trials there were.
func (s *search) tries() (n int) {
	for _, t := range s.took {
		n += t.trials
	}
	return n
}

// takes is how long one trial of each of the field takes, what it does not
// measure included: as long as those took on average that decode in the same
// place, which may take long to set up.
func (s *search) takes(field ...*runner) (sum time.Duration) {
	for _, r := range field {
		if t := s.took[r.setting.Decode]; t.trials > 0 {
			sum += t.all / time.Duration(t.trials)
		}
	}
	return max(sum, time.Microsecond)
}
