package top

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rivo/uniseg"

	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/monitor"
)

// Order is what processes are sorted by.
type Order int

// Orders of processes.
const (
	ByMemory Order = iota // of devices
	ByLink
	ByCPU
	ByPID
	orders
)

var orderNames = [orders]string{"memory", "link", "CPU", "PID"}

// View is what is on the screen.
type View struct {
	Look   Look
	Host   string // name of the machine
	User   string
	Folder string // that PINION_TOP names for the sockets of processes; "" if it names none
	Every  time.Duration
	Order  Order
	Paused bool
	Note   string // what just happened; "" if nothing
	Offset int    // lines of the body that are scrolled away; Lines keeps it in bounds

	begun bool      // there was a look
	last  Look      // also while it is paused
	noted time.Time // when Note was
}

// Lines makes the lines of a terminal of that size: a bar, the machine, as much of the
// body as there is room for, and the keys. A height of 0 is room for all, without keys.
func (v *View) Lines(width, height int) []Line {
	busy := v.Look.Machine.CPUBusyFraction
	head, body := page{width: width}, page{width: width, gpus: len(v.Look.GPUs) > 0, full: busy != nil && *busy > 0.95}
	v.head(&head)
	v.body(&body)
	if height == 0 {
		return append(head.lines, body.lines...)
	}
	foot := page{width: width}
	room := max(0, height-len(head.lines)-1)
	most := max(0, len(body.lines)-room)
	v.Offset = min(max(v.Offset, 0), most)
	shown := body.lines[v.Offset:min(v.Offset+room, len(body.lines))]
	where := ""
	if most > 0 {
		where = fmt.Sprintf("%d-%d of %d", v.Offset+1, v.Offset+len(shown), len(body.lines))
	}
	v.keys(&foot, where)
	lines := append(head.lines, shown...)
	for len(lines) < height-1 {
		lines = append(lines, Line{})
	}
	return append(lines, foot.lines...)[:height]
}

func (v *View) head(p *page) {
	state := units.Count(len(v.Look.Processes), "process")
	if len(v.Look.Processes) != 1 {
		state = fmt.Sprintf("%d processes", len(v.Look.Processes))
	}
	if v.Paused {
		state = "paused"
	}
	title := "pinion top  " + clean(v.Host) + "  " + v.Look.At.Format(time.TimeOnly)
	if v.Every > 0 && p.width >= 60 {
		title += fmt.Sprintf("  every %v", v.Every)
	}
	p.ends(Title, title, state)
	last := &p.lines[len(p.lines)-1].Text // a bar goes all the way
	*last += strings.Repeat(" ", max(0, p.width-uniseg.StringWidth(*last)))
	m := v.Look.Machine
	cpu := fmt.Sprintf("%d CPUs", v.Look.CPUs)
	if m.CPUBusyFraction != nil {
		cpu = fmt.Sprintf("%.0f %% of %d CPUs", 100**m.CPUBusyFraction, v.Look.CPUs)
	}
	load, memory := "", ""
	if len(m.LoadAverages) == 3 {
		load = fmt.Sprintf("load %.2f %.2f %.2f", m.LoadAverages[0], m.LoadAverages[1], m.LoadAverages[2])
	}
	if m.MemoryLimitBytes > 0 {
		memory = "memory " + of(m.MemoryLimitBytes-m.MemoryAvailableBytes, m.MemoryLimitBytes)
	}
	p.facts(Plain, 0, "machine", cpu, load, memory)
	p.add(Plain, "")
}

func (v *View) keys(p *page, where string) {
	pause := "p pause"
	if v.Paused {
		pause = "p go on"
	}
	sorted := "s sort: " + orderNames[v.Order]
	left := "q quit  " + pause + "  " + sorted
	if v.Note != "" {
		left = clean(v.Note)
	}
	p.ends(Faint, left, where)
}

func (v *View) body(p *page) {
	for _, g := range v.Look.GPUs {
		gpu(p, g)
	}
	for _, m := range v.Look.NotAvailable {
		if m.Name != "gpus" || len(v.Look.GPUs) > 0 { // a machine may have none
			p.words(Warning, 0, clean(m.Name+": "+m.Reason))
		}
	}
	if len(v.Look.Processes) == 0 {
		v.nobody(p)
		return
	}
	list := slices.Clone(v.Look.Processes)
	slices.SortStableFunc(list, func(a, b Process) int {
		switch v.Order {
		case ByMemory:
			return cmp.Compare(b.deviceBytes(), a.deviceBytes())
		case ByLink:
			return cmp.Compare(b.moved(), a.moved())
		case ByCPU:
			return cmp.Compare(b.cpu(), a.cpu())
		}
		return cmp.Compare(a.PID, b.PID)
	})
	for i := range list {
		if len(p.lines) > 0 {
			p.add(Plain, "")
		}
		program(p, &list[i])
	}
}

// nobody says what to do where there is no process to show.
func (v *View) nobody(p *page) {
	if len(p.lines) > 0 {
		p.add(Plain, "")
	}
	whose := ""
	if v.User != "" {
		whose = " of user " + clean(v.User)
	}
	found := " uses Pinion now"
	if slices.ContainsFunc(v.Look.NotAvailable, func(m Missing) bool { return m.Name == "processes" }) {
		found = " was found" // not all places were looked at
	}
	p.words(Plain, 0, "No process"+whose+found+". These are shown by themselves:")
	p.add(Plain, "")
	p.sentence(Plain, 2, "command", "pinion feed, bench, tune, load, pack, replay, train")
	p.sentence(Plain, 2, "Python", "pinion.DataLoader, pinion.Collate, …")
	p.sentence(Plain, 2, "Go", "stop, err := local.Offer(ctx, local.Options{})")
	p.add(Plain, "")
	if v.Folder != "" {
		there := ""
		if _, err := os.Stat(v.Folder); errors.Is(err, fs.ErrNotExist) {
			there = ", which is not there"
		}
		p.words(Warning, 0, "PINION_TOP is "+clean(v.Folder)+there+": only processes that have the same PINION_TOP are shown.")
		p.add(Plain, "")
	}
	p.words(Faint, 0, "Processes of other users are not shown, and none that was started with PINION_TOP=off. Try it: run \"pinion feed --epochs 100\" in another terminal.")
}

// of is a part of an amount.
func of(part, all int64) string { return units.Bytes(part) + " of " + units.Bytes(all) }

func gpu(p *page, g GPU) {
	if len(p.lines) > 0 {
		p.add(Plain, "")
	}
	p.add(Heading, fmt.Sprintf("GPU %d  %s", g.Index, clean(g.Name)))
	if g.Reason != "" {
		p.words(Warning, 2, clean(g.Reason))
		return
	}
	p.facts(Plain, 2, "memory", of(g.MemoryUsedBytes, g.MemoryTotalBytes)+" in use")
	busy, heat, power := "", "", ""
	if g.BusyFraction != nil {
		busy = units.Percent(*g.BusyFraction) + " of the time"
	}
	if g.TemperatureC > 0 {
		heat = fmt.Sprintf("%d °C", g.TemperatureC)
	}
	if g.PowerWatts > 0 {
		power = fmt.Sprintf("%.0f of %.0f W", g.PowerWatts, g.PowerLimitWatts)
	}
	p.facts(Plain, 2, "busy", busy, heat, power)
	if g.SlowReason != "" {
		p.facts(Warning, 2, "slowed", clean(g.SlowReason))
	}
	name, up, down, when := "", "", "", ""
	if g.Link != nil {
		name = fmt.Sprintf("%s %d.0 x%d", g.Link.Kind, g.Link.Generation, g.Link.Width)
		if g.Link.Generation < g.Link.MaxGeneration || g.Link.Width < g.Link.MaxWidth {
			name += fmt.Sprintf(" (can be %d.0 x%d)", g.Link.MaxGeneration, g.Link.MaxWidth)
		}
	}
	if g.H2DGBPerS != nil && g.D2HGBPerS != nil {
		up, down, when = "up "+rate(*g.H2DGBPerS), "down "+rate(*g.D2HGBPerS), "over 20 ms"
	}
	p.facts(Plain, 2, "link", name, up, down, when)
	for _, x := range g.Processes {
		use, memory := "", "unknown memory"
		if x.BusyFraction != nil {
			use = units.Percent(*x.BusyFraction) + " busy"
		}
		if x.UsedBytes != nil {
			memory = units.Bytes(*x.UsedBytes)
		}
		p.facts(Plain, 2, fmt.Sprint(x.PID), memory, use, clean(shortCommand(x.Command)))
	}
}

// rate is one in GB/s, also a small one.
func rate(gbPerS float64) string {
	switch {
	case gbPerS < 5e-5:
		return "0 GB/s"
	case gbPerS < 0.1:
		return fmt.Sprintf("%.4f GB/s", gbPerS)
	}
	return units.Rate(gbPerS * 1e9)
}

// samples is how many samples come in a second.
func samples(rate float64) string {
	if rate == 0 {
		return "0 samples/s"
	}
	return units.Digits(rate) + " samples/s"
}

func program(p *page, x *Process) {
	name := fmt.Sprintf("%d  %s", x.PID, clean(shortCommand(x.Command)))
	cpu, memory := "", ""
	if x.CPURatio != nil {
		cpu = fmt.Sprintf("CPU %.0f %%", 100**x.CPURatio)
	}
	if x.ResidentBytes > 0 {
		memory = units.Bytes(x.ResidentBytes)
	}
	right := memory
	if cpu != "" && memory != "" {
		right = cpu + "  " + memory
	}
	p.ends(Heading, name, right)
	if x.Foreign {
		p.words(Faint, 2, "in a container, where its number is that")
	}
	if x.Snapshot == nil {
		p.words(Warning, 2, clean(x.SnapshotReason))
		return
	}
	ids := x.devices()
	if len(ids) == 0 {
		p.add(Faint, "  nothing is open")
	}
	for _, id := range ids {
		p.add(Plain, "  "+clean(id))
		onDevice(p, x, id)
	}
}

// onDevice adds what a process has on a device, and does there.
func onDevice(p *page, x *Process, id string) {
	s := x.Snapshot
	for _, v := range s.VRAM {
		if v.Device == id && v.Pools > 0 {
			vram(p, v)
		}
	}
	for _, f := range s.Foreign {
		if f.Device == id {
			p.facts(Plain, 2, clean(f.Source), units.Bytes(f.ReservedBytes)+" reserved", units.Bytes(f.AllocatedBytes)+" allocated",
				some(f.FragmentedBytes, "fragmented"), trouble(f.Retries, f.OutOfMemory))
		}
	}
	for _, v := range s.Pinned {
		if v.Device == id && v.Pools > 0 {
			p.facts(Plain, 2, "pinned", units.Bytes(v.ReservedBytes+v.RegisteredBytes), units.Bytes(v.ActiveBytes)+" in use",
				some(v.PageableBytes, "could not be pinned"))
		}
	}
	for _, t := range s.Transfer {
		if t.Device == id && t.Engines > 0 {
			transfer(p, x, t)
		}
	}
	for _, t := range s.Tier {
		if t.Device == id && t.Stores > 0 {
			tier(p, x, t)
		}
	}
	for _, l := range s.Loader {
		if l.Device == id && l.Loaders > 0 {
			loader(p, x, l)
		}
	}
}

// some is an amount of bytes worth a word; "" if there are none.
func some(n int64, what string) string {
	if n == 0 {
		return ""
	}
	return units.Bytes(n) + " " + what
}

// trouble says how often memory was short.
func trouble(retries, failed int64) string {
	switch {
	case failed > 0:
		return fmt.Sprintf("out of memory %s", times(failed))
	case retries > 0:
		return fmt.Sprintf("short of memory %s", times(retries))
	}
	return ""
}

func times(n int64) string {
	if n == 1 {
		return "once"
	}
	return units.Grouped(n) + " times"
}

func vram(p *page, v monitor.VRAM) {
	facts := []string{units.Bytes(v.ReservedBytes) + " reserved"}
	purposes := slices.Clone(v.Purposes)
	slices.SortStableFunc(purposes, func(a, b monitor.Purpose) int { return cmp.Compare(b.AllocatedBytes, a.AllocatedBytes) })
	for _, u := range purposes {
		if u.AllocatedBytes > 0 {
			facts = append(facts, clean(u.Purpose)+" "+units.Bytes(u.AllocatedBytes))
		}
	}
	facts = append(facts, "free "+units.Bytes(v.FreeBytes), some(v.FragmentedBytes, "fragmented"), trouble(v.Retries, v.OutOfMemory))
	p.facts(Plain, 2, "memory", facts...)
}

// directions are how they are shown.
var directions = []struct{ name, word string }{{"h2d", "up"}, {"d2h", "down"}, {"d2d", "inside"}, {"p2p", "from other devices"}}

func transfer(p *page, x *Process, t monitor.Transfer) {
	facts := []string{}
	for _, d := range directions {
		var total float64
		paths := ""
		n := 0
		for _, l := range x.Links {
			if l.Device == t.Device && l.Direction == d.name {
				if n++; n > 1 {
					paths += ", "
				}
				paths += clean(l.Path)
				total += l.GBPerS
			}
		}
		switch {
		case n > 0:
			facts = append(facts, fmt.Sprintf("%s %s (%s)", d.word, rate(total), paths))
		case x.delta != nil && (d.name == "h2d" || d.name == "d2h"):
			facts = append(facts, d.word+" 0 GB/s")
		}
	}
	var active, failed int64
	for _, w := range t.Traffic {
		active, failed = active+w.Active, failed+w.Failed
	}
	facts = append(facts, units.Count(t.Engines, "engine"), copies(active, "under way"), copies(t.Waiting, "waiting"), copies(failed, "failed"))
	p.facts(Plain, 2, "link", facts...)
}

func copies(n int64, what string) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "1 copy " + what
	}
	return units.Grouped(n) + " copies " + what
}

func tier(p *page, x *Process, t monitor.Tier) {
	facts := []string{}
	for _, l := range t.Levels {
		if l.BudgetBytes > 0 {
			facts = append(facts, clean(l.Tier)+" "+of(l.UsedBytes, l.BudgetBytes))
		} else if l.UsedBytes > 0 {
			facts = append(facts, clean(l.Tier)+" "+units.Bytes(l.UsedBytes))
		}
	}
	if x.delta != nil {
		for _, d := range x.delta.Tier {
			if d.Device != t.Device {
				continue
			}
			if d.UseBytes > 0 {
				facts = append(facts, units.Percent(1-float64(d.MissBytes)/float64(d.UseBytes))+" hits")
			}
			facts = append(facts, "in "+rate(float64(d.FillBytes)/x.delta.Seconds/1e9), "out "+rate(float64(d.WriteBackBytes)/x.delta.Seconds/1e9))
			if d.WaitSeconds > 0 {
				facts = append(facts, "waited "+units.Percent(min(1, d.WaitSeconds/x.delta.Seconds))+" of the time")
			}
			if d.Evictions > 0 {
				facts = append(facts, units.Count(d.Evictions, "eviction"))
			}
		}
	}
	p.facts(Plain, 2, "tier", facts...)
}

// limits says what each limit of a loader means, and what to try beside more workers.
var limits = map[string]struct {
	words   string
	workers bool // more of them may help
	try     []string
	gpu     string // to try where there is one
}{
	"device":           {words: "the program: batches are ready before it asks for them"},
	"read":             {"reading", true, []string{"a faster disk", "shards (pinion pack)"}, ""},
	"decode":           {"decoding", true, []string{"smaller photos"}, "JPEGs decoded on the GPU (--decode gpu)"},
	"resize":           {"resizing", true, []string{"photos nearer to the size that is wanted"}, ""},
	"h2d":              {"the link", false, []string{"bytes instead of floats", "fewer of them"}, ""},
	"decode on device": {"decoding on the GPU", false, []string{"photos nearer to the size that is wanted"}, ""},
	"transform":        {words: "the transform on the device"},
	"latency":          {"latency, with everybody idle at times", true, []string{"prefetch", "larger batches"}, ""},
	"":                 {words: "nothing was read"},
}

// advice says what a limit means and what to try, on a machine with GPUs or without,
// whose processors are all busy or not.
func advice(limit string, gpus, full bool) string {
	l, known := limits[limit]
	if !known {
		return limit
	}
	try := l.try
	switch {
	case l.workers && !full:
		try = append([]string{"more workers"}, try...)
	case l.workers:
		l.words += ", and all processors are busy"
	}
	if gpus && l.gpu != "" {
		try = append(try[:len(try):len(try)], l.gpu)
	}
	if len(try) == 0 {
		return l.words
	}
	last := len(try) - 1
	list := try[last]
	if last > 0 {
		list = strings.Join(try[:last], ", ") + " or " + list
	}
	return l.words + ": try " + list
}

func loader(p *page, x *Process, now monitor.Loader) {
	var l *Loader
	for i := range x.Loaders {
		if x.Loaders[i].Device == now.Device {
			l = &x.Loaders[i]
		}
	}
	number := ""
	if now.Loaders > 1 {
		number = units.Count(now.Loaders, "loader")
	}
	waits := []string{}
	speed, link, waited := "", "", ""
	if l != nil {
		speed = samples(l.SamplesPerS)
		link = "up " + rate(l.H2DGBPerS)
		waited = "program waits " + units.Percent(l.DeviceWaitFraction)
	}
	if now.FailedSamples > 0 {
		waits = append(waits, units.Count(now.FailedSamples, "sample")+" failed")
	}
	facts := append([]string{number, speed, link, waited, fmt.Sprintf("%d ready", now.Ready),
		fmt.Sprintf("%d of %s in use", now.Reading, units.Count(now.Slabs, "slab")), units.Count(now.Workers, "worker"),
		some(now.DeviceBytes, "on the device"), some(now.HostBytes, "on the host")}, waits...)
	p.facts(Plain, 2, "loader", facts...)
	if l == nil {
		return
	}
	p.sentence(Plain, 2, "limit", clean(advice(l.Limit, p.gpus, p.full)))
	for _, g := range l.Stages {
		if g.Stage != idle {
			stage(p, g, g.Stage, g.Stage == l.Limit)
		}
	}
	for _, g := range l.Stages { // what nobody waits for, in the end
		if g.Stage == idle {
			stage(p, g, g.Where+"s idle", false)
		}
	}
}

// idle is the stage of workers that have nothing to do.
const idle = "idle"

// stage adds a stage with a bar, unless it takes no time.
func stage(p *page, g Stage, name string, limit bool) {
	if g.BusyFraction < 0.0005 && !limit {
		return
	}
	mark, word, style := " ", "", Plain
	if limit {
		mark, word, style = ">", "  limit", Warning
	}
	name = clean(name)
	name += fmt.Sprintf("%*s", max(0, 16-uniseg.StringWidth(name)), "")
	columns := min(max(p.width-40, 5), 30)
	p.add(style, fmt.Sprintf("  %s %s  %s %6s%s", mark, name, bar(g.BusyFraction, columns), units.Percent(g.BusyFraction), word))
}
