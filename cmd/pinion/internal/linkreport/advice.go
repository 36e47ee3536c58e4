package linkreport

import (
	"fmt"
	"math"
	"time"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/linkbench"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/page"
	"github.com/pinion-gpu/pinion/internal/pcie"
	"github.com/pinion-gpu/pinion/internal/units"
)

// advice is what to do, and the numbers that say so.
type advice struct{ Do, Because string }

// rules look at a report; a rule that has nothing to say returns false. On a
// device that shares the host's memory those about a link have nothing to say.
var rules = []func(*Report) (advice, bool){
	narrowLink, slowLink, usePinion, pinOften, smallCopies, pathless,
	bothAtOnce, poolNotDriver, mappedBlocks, firstCopy, choiceHeld, noisy,
}

func (r *Report) advice() (list []advice) {
	for _, rule := range rules {
		if a, ok := rule(r); ok {
			list = append(list, a)
		}
	}
	return list
}

// narrowLink finds a slot that gives fewer lanes than there could be. The
// generation is no sign: an idle device lowers it.
func narrowLink(r *Report) (advice, bool) {
	l := r.Device.Link
	if l.Width <= 0 || l.Width >= l.MaxWidth {
		return advice{}, false
	}
	return advice{"Check the slot.",
		fmt.Sprintf("The link runs %d of its %d lanes, so copies reach at most %s of the limit. Another card may share the lanes, or the card may not be seated properly.",
			l.Width, l.MaxWidth, page.Percent(float64(l.Width)/float64(l.MaxWidth)))}, true
}

// slowLink finds pinned copies far below what the link carries.
func slowLink(r *Report) (advice, bool) {
	for _, w := range ways {
		b, ok := r.bulk("pinned", w.id)
		l, known := r.limit(w.id)
		if ok && known && b.Median < pcie.Low*l.Rate {
			return advice{"Find out what slows the link.",
				fmt.Sprintf("%s, pinned memory reaches %s GB/s, %s of the %s GB/s that the link can carry; %.0f %% or more is usual. “pinion doctor” checks the process’s NUMA node and the IOMMU; the host’s memory channels and other traffic on the link remain.",
					w.title, gb(b.Median), page.Percent(b.Median/l.Rate), gb(l.Rate), 100*pcie.Usual)}, true
		}
	}
	return advice{}, false
}

// usePinion compares copies of pageable memory.
func usePinion(r *Report) (advice, bool) {
	chosen, ok := r.largest("chosen", "h2d")
	plain, also := r.at("pageable", "h2d", chosen.Bytes)
	if !ok || !also || r.Device.Integrated || float64(plain.Median) < 1.1*float64(chosen.Median) {
		return advice{}, false
	}
	return advice{"Copy large pageable memory through Pinion.",
		fmt.Sprintf("Copying %s to the device takes %s instead of the driver’s %s: %s times as fast, without pinning any memory yourself.",
			units.Bytes(chosen.Bytes), units.Duration(chosen.Median), units.Duration(plain.Median),
			times(float64(plain.Median)/float64(chosen.Median)))}, true
}

// pinOften computes after how many copies pinning has paid for itself.
func pinOften(r *Report) (advice, bool) {
	pool, ok := timing(r.Bench.Pin, "pinned pool")
	pinned, also := r.largest("pinned", "h2d")
	chosen, too := r.at("chosen", "h2d", pinned.Bytes)
	if !ok || !also || !too || r.Device.Integrated {
		return advice{}, false
	}
	saved := chosen.Median - pinned.Median
	size := units.Bytes(pinned.Bytes)
	// Less than this is within the noise of a machine.
	if float64(saved) < 0.03*float64(chosen.Median) {
		return advice{"Do not pin memory for speed alone.",
			fmt.Sprintf("Pinning %s costs %s. A copy of it takes %s pinned and %s through Pinion without pinning.",
				size, units.Duration(pool.Median), units.Duration(pinned.Median), units.Duration(chosen.Median))}, true
	}
	copies := int64(math.Ceil(float64(pool.Median) / float64(saved)))
	return advice{fmt.Sprintf("Pin memory that is copied %s or more.", counted(copies)),
		fmt.Sprintf("Pinning %s costs %s once and saves %s per copy: %s pinned, %s from pageable memory through Pinion.",
			size, units.Duration(pool.Median), units.Duration(saved), units.Duration(pinned.Median), units.Duration(chosen.Median))}, true
}

func counted(copies int64) string {
	if copies == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", copies)
}

// fastest is the curve that shows what copies can have: that of pinned memory
// where there is one.
func (r *Report) fastest() (points []linkbench.Point, name string) {
	if points = r.curve("pinned", "h2d"); len(points) > 0 {
		return points, "pinned memory"
	}
	return r.curve("chosen", "h2d"), "pageable memory"
}

// smallCopies finds the size that reaches half of the rate of large copies.
func smallCopies(r *Report) (advice, bool) {
	points, name := r.fastest()
	if len(points) < 2 || r.Device.Integrated {
		return advice{}, false
	}
	last := points[len(points)-1]
	whole := perSecond(last.Bytes, last.Median)
	for _, p := range points[:len(points)-1] {
		if rate := perSecond(p.Bytes, p.Median); rate >= whole/2 {
			if p.Bytes == points[0].Bytes {
				return advice{}, false
			}
			first := points[0]
			return advice{fmt.Sprintf("Merge copies below %s.", units.Bytes(p.Bytes)),
				fmt.Sprintf("From %s up, copies of %s reach at least half of the full rate (%s of %s GB/s to the device). A copy of %s takes %s: %s GB/s.",
					units.Bytes(p.Bytes), name, gb(rate), gb(whole), units.Bytes(first.Bytes), units.Duration(first.Median),
					gb(perSecond(first.Bytes, first.Median)))}, true
		}
	}
	return advice{}, false
}

// pathless finds the sizes at which all ways of copying take the same time,
// which is that of the call.
func pathless(r *Report) (advice, bool) {
	var upTo int64
	var call, slowest time.Duration
	for _, size := range r.sizes() {
		least, most, paths := time.Duration(math.MaxInt64), time.Duration(0), 0
		for _, path := range []string{"pageable", "pinned", "chosen"} {
			if p, ok := r.at(path, "h2d", size); ok {
				least, most = min(least, p.Median), max(most, p.Median)
				paths++
			}
		}
		if upTo == 0 {
			call = least
		}
		if paths < 3 || float64(most) > 1.35*float64(least) || least > 2*call {
			break
		}
		upTo, slowest = size, most
	}
	if upTo == 0 || r.Device.Integrated {
		return advice{}, false
	}
	return advice{fmt.Sprintf("Up to %s, any path will do.", units.Bytes(upTo)),
		fmt.Sprintf("Pinned or pageable, plain or through Pinion, a copy takes at most %s, and the paths differ by a third at most. The call itself is what costs.", units.Duration(slowest))}, true
}

// bothAtOnce says whether the two directions run beside each other.
func bothAtOnce(r *Report) (advice, bool) {
	both, ok := r.bulk("pinned", "both")
	up, also := r.bulk("pinned", "h2d")
	down, too := r.bulk("pinned", "d2h")
	if !ok || !also || !too || r.Device.Integrated {
		return advice{}, false
	}
	one := max(up.Median, down.Median)
	numbers := fmt.Sprintf("Together they move %s GB/s, one alone %s GB/s.", gb(both.Median), gb(one))
	if both.Median > 1.3*one {
		return advice{"Copy in both directions at once.", numbers + " Give each direction its own stream."}, true
	}
	return advice{"Do not count on both directions at once.", numbers}, true
}

// poolNotDriver compares ways to make pinned memory.
func poolNotDriver(r *Report) (advice, bool) {
	pool, ok := timing(r.Bench.Pin, "pinned pool")
	driver, also := timing(r.Bench.Pin, "driver's allocation")
	if !ok || !also || float64(driver.Median) < 1.2*float64(pool.Median) {
		return advice{}, false
	}
	return advice{"Allocate pinned memory from a pool.",
		fmt.Sprintf("The driver takes %s to allocate %s; Pinion’s pool takes %s, %s times as fast, and reuses it.",
			units.Duration(driver.Median), units.Bytes(r.Bench.PinSize), units.Duration(pool.Median),
			times(float64(driver.Median)/float64(pool.Median)))}, true
}

// mappedBlocks compares a kernel that moves blocks with a copy for each.
func mappedBlocks(r *Report) (advice, bool) {
	const block = 16 << 10
	mapped, ok := r.largest("mapped", "h2d")
	one, also := r.at("pinned", "h2d", block)
	if !ok || !also || mapped.Bytes <= block || r.Device.Integrated {
		return advice{}, false
	}
	kernel, alone := perSecond(mapped.Bytes, mapped.Median), perSecond(block, one.Median)
	if kernel < 2*alone {
		return advice{}, false
	}
	return advice{"Move scattered blocks with a kernel.",
		fmt.Sprintf("A gather kernel that reads mapped memory moves 16 KiB blocks at %s GB/s. Copying them one at a time gives %s GB/s.",
			gb(kernel), gb(alone))}, true
}

// firstCopy says what a benchmark that opens the device would time.
func firstCopy(r *Report) (advice, bool) {
	b, ok := r.bulk("pinned", "h2d")
	if !ok {
		b, ok = r.bulk("pageable", "h2d")
	}
	const worthIt = 10 * time.Millisecond
	if !ok || r.Opened < worthIt {
		return advice{}, false
	}
	return advice{"Do not time the first copy.",
		fmt.Sprintf("Opening the device took %s, long enough to copy %s GB.",
			units.Duration(r.Opened), units.Digits(r.Opened.Seconds()*b.Median/1e9))}, true
}

// choiceHeld tells where Pinion's choice was not the best. A difference below
// a microsecond is that of a function call, not of a path.
func choiceHeld(r *Report) (advice, bool) {
	const margin = 1.05
	var worst linkbench.Choice
	missed, all := 0, len(r.choices())
	for _, c := range r.choices() {
		if c.Ratio <= margin || c.Chosen-c.Best < time.Microsecond {
			continue
		}
		missed++
		if c.Ratio > worst.Ratio {
			worst = c
		}
	}
	if all == 0 || r.Device.Integrated { // there all choices are the plain copy
		return advice{}, false
	}
	if missed == 0 {
		return advice{"Let Pinion choose the path.",
			fmt.Sprintf("At all %d sizes and directions, its choice for pageable memory was within 5 %% or a microsecond of the faster of plain and staged.", all)}, true
	}
	name := map[string]string{"h2d": "to the device", "d2h": "to the host"}[worst.Direction]
	return advice{fmt.Sprintf("Pinion’s choice missed at %d of %d sizes and directions.", missed, all),
		fmt.Sprintf("There it was over 5 %% and over a microsecond slower than the faster of plain and staged. The worst case: %s %s took %s; %s would have taken %s.",
			units.Bytes(worst.Bytes), name, units.Duration(worst.Chosen), worst.BestPath, units.Duration(worst.Best))}, true
}

// noisy finds large copies whose repeats differ much.
func noisy(r *Report) (advice, bool) {
	var worst linkbench.Bulk
	var spread float64
	for _, b := range r.Bench.Bulk {
		if b, ok := r.bulk(b.Path, b.Direction); ok && (b.Most-b.Least)/b.Median > spread {
			worst, spread = b, (b.Most-b.Least)/b.Median
		}
	}
	if spread < 0.25 {
		return advice{}, false
	}
	name := map[string]string{"h2d": "to the device", "d2h": "to the host", "both": "both ways"}[worst.Direction]
	return advice{"Measure again on a quiet machine.",
		fmt.Sprintf("Repeats of the same copy (%s memory, %s) ranged from %s to %s GB/s. This page shows medians.",
			worst.Path, name, gb(worst.Least), gb(worst.Most))}, true
}
