package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/measure"
	"github.com/pinion-gpu/pinion/internal/stats"
	"github.com/pinion-gpu/pinion/transfer"
	"github.com/pinion-gpu/pinion/transfer/linkmodel"
)

// route is an engine and what it is made to do.
type route struct {
	name    string
	engines [engines]*transfer.Engine
	rounds  int
	times   []float64
}

// engines that do the same. Some are faster than others, by where their rings
// and their threads happen to lie, and times are of all.
const engines = 3

// choices compares what the engine chooses for ordinary memory, over sizes
// from 1 KiB on, with every path that it could have been forced to take. The
// row is how much slower than the best path the worst choice is, in per cent.
func (b *bench) choices(ctx context.Context, m *memory) error {
	n := b.choice
	p, err := m.Alloc(n)
	if err != nil {
		return err
	}
	up, down, check := make([]byte, n), make([]byte, n), make([]byte, n) // down: where checked copies land
	fill(up, 8)
	fill(down, 9)
	routes, err := b.routes(m)
	if err != nil {
		return err
	}
	worst := 1.0
	for bytes := int64(1 << 10); bytes <= n; bytes *= 4 {
		for _, toHost := range []bool{false, true} {
			c := transfer.Copy{Host: up[:bytes], Device: p}
			if toHost {
				c = transfer.Copy{Host: down[:bytes], Device: p, ToHost: true}
			}
			for _, r := range routes {
				if err := r.check(ctx, m, c, up[:bytes], check[:bytes]); err != nil {
					return fmt.Errorf("%s, %d bytes, to host %t: %w", r.name, bytes, toHost, err)
				}
			}
			found, err := b.choose(ctx, routes, turns(up, p, bytes, toHost))
			if err != nil {
				return err
			}
			b.Choice = append(b.Choice, found)
			worst = max(worst, found.Chosen/found.BestTime)
		}
	}
	figure := 100 * (worst - 1)
	b.Rows = append(b.Rows, row{Row: measure.Row{Name: "chosen path, slower than the best", Value: figure, Unit: "%", Min: figure, Max: figure}})
	return nil
}

// routes are the engine as it comes, and the paths that it could take.
func (b *bench) routes(m *memory) ([]*route, error) {
	var list []*route
	add := func(name string, o transfer.Options) error {
		r := &route{name: name}
		list = append(list, r)
		for i := range r.engines {
			var err error
			if r.engines[i], err = m.engine(o); err != nil {
				return err
			}
		}
		return nil
	}
	rules := &linkmodel.Model{} // an empty one, not the one on the disk
	err := errors.Join(
		add("chosen", transfer.Options{Copiers: b.copiers, Model: b.model}),
		add("plain", transfer.Options{StageAbove: math.MaxInt64, Model: rules}))
	for _, k := range []int{1, 2, 4, 8, 12, 16} {
		err = errors.Join(err, add(fmt.Sprintf("staged by %d", k), transfer.Options{StageAbove: 1, Copiers: k, Model: rules}))
	}
	return list, err
}

// check moves c once and compares: on the way to the device with what is then
// there, on the way back with what was sent before.
func (r *route) check(ctx context.Context, m *memory, c transfer.Copy, sent, got []byte) error {
	for _, engine := range r.engines {
		if c.ToHost {
			blankOut(c.Host)
			if err := errors.Join(m.upload(c.Device, sent), engine.Do(ctx, c), same(c.Host, sent)); err != nil {
				return err
			}
		} else if err := errors.Join(m.wipe(c.Device, int64(len(sent))), engine.Do(ctx, c),
			m.download(got, c.Device), same(got, sent)); err != nil {
			return err
		}
	}
	return nil
}

// turns returns copies of that many bytes of host: by turns of bytes that were
// copied a moment before, and may lie in a near cache, and of others.
func turns(host []byte, p device.Ptr, bytes int64, toHost bool) func() transfer.Copy {
	at, cold := int64(0), false
	host = host[:max(bytes, min(int64(len(host)), 256<<20))] // as calibration has it
	return func() transfer.Copy {
		c := transfer.Copy{Host: host[:bytes], Device: p, ToHost: toHost}
		if cold = !cold; cold {
			if at+bytes > int64(len(host)) {
				at = 0
			}
			c.Host = host[at:][:bytes]
			at += bytes
		}
		return c
	}
}

// choose finds the fastest route that is forced, and then times it again beside
// the engine's choice, which is the first of the routes: the fastest of many
// owes a part of its first time to luck.
func (b *bench) choose(ctx context.Context, routes []*route, next func() transfer.Copy) (choice, error) {
	found := choice{Bytes: int64(len(next().Host)), Direction: "h2d"}
	if next().ToHost {
		found.Direction = "d2h"
	}
	if err := b.race(ctx, routes[1:], next); err != nil {
		return found, err
	}
	best := slices.MinFunc(routes[1:], func(x, y *route) int { return cmp.Compare(stats.Median(x.times), stats.Median(y.times)) })
	err := b.race(ctx, []*route{routes[0], best}, next)
	found.Best, found.Chosen, found.BestTime = best.name, stats.Median(routes[0].times), stats.Median(best.times)
	return found, err
}

// race times routes in turn, in another order each time: what one leaves behind
// in the caches must not always meet the same.
func (b *bench) race(ctx context.Context, routes []*route, next func() transfer.Copy) error {
	const sampleTime = time.Millisecond // short copies are timed many at once
	repeats := 3 * b.Repeats
	if len(next().Host) > 64<<20 {
		repeats = b.Repeats
	}
	for _, r := range routes {
		r.times, r.rounds = nil, 1
		for ; r.rounds < 1<<12; r.rounds *= 2 {
			if t, err := r.sample(ctx, 0, next); err != nil {
				return err
			} else if t*float64(r.rounds) >= sampleTime.Seconds() {
				break
			}
		}
	}
	order := slices.Clone(routes)
	random := rand.New(rand.NewPCG(7, 7))
	for repeat := range repeats {
		random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, r := range order {
			t, err := r.sample(ctx, repeat, next)
			if err != nil {
				return err
			}
			r.times = append(r.times, t)
		}
	}
	return nil
}

// sample is the seconds of one copy, of as many as r.rounds.
func (r *route) sample(ctx context.Context, repeat int, next func() transfer.Copy) (float64, error) {
	engine := r.engines[repeat%engines]
	start := time.Now()
	for range r.rounds {
		if err := engine.Do(ctx, next()); err != nil {
			return 0, err
		}
	}
	return measure.Since(start, time.Second) / float64(r.rounds), nil
}
