package leaks

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
)

// model is what a program has, by serial number. Each user of it has a name.
type model struct {
	t      *testing.T
	r      *rand.Rand
	w      *Watch
	serial int64
	items  map[int64]string
	users  []func(step int) // what each does in a step
}

func newModel(t *testing.T, seed uint64) *model {
	m := &model{t: t, r: rand.New(rand.NewPCG(seed, 1)), items: map[int64]string{}, w: &Watch{}}
	m.w.list = func(f func(*seen)) {
		for id, name := range m.items {
			f(&seen{key: key{a: id}, kind: VRAM, name: name, bytes: 512})
		}
	}
	return m
}

func (m *model) alloc(name string) int64 {
	m.serial++
	m.items[m.serial] = name
	return m.serial
}

func (m *model) free(id int64) { delete(m.items, id) }

// run takes steps and returns the names of the sites that leak.
func (m *model) run(steps int) map[string]bool {
	m.w.begin()
	for step := range steps {
		for _, use := range m.users {
			use(step)
		}
		m.w.Step()
	}
	leaks := map[string]bool{}
	for _, s := range m.w.Report().Leaks {
		leaks[s.Name] = true
	}
	return leaks
}

// The uses of memory that are no leaks.

// warmup allocates in the first steps, and keeps it.
func (m *model) warmup(name string, steps, each int) {
	m.users = append(m.users, func(step int) {
		for i := 0; step < steps && i < each; i++ {
			m.alloc(name)
		}
	})
}

// steady frees at the end of a step what the step allocated.
func (m *model) steady(name string, each int) {
	var held []int64
	m.users = append(m.users, func(int) {
		for _, id := range held {
			m.free(id)
		}
		held = held[:0]
		for range each {
			held = append(held, m.alloc(name))
		}
	})
}

// fifo is a cache or a queue that drops its oldest when it is full, and takes up to
// most new ones a step.
func (m *model) fifo(name string, capacity, most int) {
	var held []int64
	m.users = append(m.users, func(int) {
		for range m.r.IntN(most + 1) {
			held = append(held, m.alloc(name))
		}
		for len(held) > capacity {
			m.free(held[0])
			held = held[1:]
		}
	})
}

// cache keeps what is looked up by one of so many keys, until it is full, and then
// drops one at random.
func (m *model) cache(name string, keys, capacity, lookups int) {
	held := map[int]int64{}
	m.users = append(m.users, func(int) {
		for range lookups {
			k := m.r.IntN(keys)
			if _, ok := held[k]; ok {
				continue
			}
			if len(held) == capacity {
				for old, id := range held {
					m.free(id)
					delete(held, old)
					break
				}
			}
			held[k] = m.alloc(name)
		}
	})
}

// sawtooth collects until it drops everything.
func (m *model) sawtooth(name string, period, each int) {
	var held []int64
	phase := m.r.IntN(period)
	m.users = append(m.users, func(step int) {
		if (step+phase)%period == 0 {
			for _, id := range held {
				m.free(id)
			}
			held = held[:0]
		}
		for range each {
			held = append(held, m.alloc(name))
		}
	})
}

// random allocates and frees at random, so that about so many are there.
func (m *model) random(name string, about, operations int) {
	var held []int64
	for len(held) < about {
		held = append(held, m.alloc(name))
	}
	m.users = append(m.users, func(int) {
		for range operations {
			if i := m.r.IntN(2 * about); i >= len(held) {
				held = append(held, m.alloc(name))
			} else {
				m.free(held[i])
				held[i] = held[len(held)-1]
				held = held[:len(held)-1]
			}
		}
	})
}

// leak leaves one behind in every few steps.
func (m *model) leak(name string, every int) {
	m.users = append(m.users, func(step int) {
		if step%every == 0 {
			m.alloc(name)
		}
	})
}

// Whatever a program does that is no leak is not reported, and what leaks is.
func TestModels(t *testing.T) {
	for seed := range uint64(40) {
		m := newModel(t, seed)
		steps := 100 + m.r.IntN(2000)
		n := func(from, to int) int { return from + m.r.IntN(to-from) }
		m.warmup("warm-up", n(1, steps/4), n(1, 20))
		m.steady("steady", n(1, 20))
		m.fifo("queue", n(1, steps/4), n(1, 10)) // it is full after half of the steps
		m.sawtooth("sawtooth", n(2, steps/3), n(1, 5))
		m.random("random", n(1, 300), n(1, 10))
		m.cache("cache", n(2, steps), n(1, steps), 20)
		want := map[string]bool{}
		for i := range m.r.IntN(3) {
			name := fmt.Sprint("leak ", string(rune('a'+i)))
			m.leak(name, n(1, steps/32))
			want[name] = true
		}
		if got := m.run(steps); !maps.Equal(got, want) {
			t.Errorf("seed %d, %d steps: %v, want %v", seed, steps, got, want)
		}
	}
}
