package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/pinion-gpu/pinion/internal/stats"
)

// quantity is a row of the README's table. A peer's value is its row of that
// name; Pinion's is found in link-curves.json, or link.json, and the feed files.
// Files whose names begin with "host-" are of runs on the host alone.
type quantity struct {
	title string
	unit  string // that a row must have, or "s" for any unit of time
	name  string // of the peers' rows, in lower case; "" takes the best row of that unit
	host  bool   // of the files about the host alone

	// Of a row in files that compare programs: what they are about, and what
	// the peer's "by" begins with.
	kind, by string
}

const images = "images/s"

var quantities = []quantity{
	{title: "pinned memory to device", name: "pinned h2d", unit: "GB/s"},
	{title: "device to pinned memory", name: "pinned d2h", unit: "GB/s"},
	{title: "ordinary memory to device", name: "pageable h2d", unit: "GB/s"},
	{title: "device to ordinary memory", name: "pageable d2h", unit: "GB/s"},
	{title: "pinned memory, both directions at once", name: "pinned both", unit: "GB/s"},
	{title: "pin 1 GiB", name: "pin 1 gib", unit: "s"},
	{title: "copy 4 KiB of pinned memory to the device and wait", name: "4 kib pinned h2d", unit: "s"},
	{title: "safetensors checkpoint in the page cache to the device (PyTorch: `load_file`)", unit: "GB/s",
		name: "load in page cache", kind: weights, by: "safetensors"},
	{title: "JPEG photos into float32 batches on the device, best setting", unit: images},
	{title: "JPEG photos into float32 batches without a GPU, best setting", unit: images, host: true},
}

// comparison is the README's tables: Pinion and its peers on the newest device
// other than the host that there are results of, or else on the host. Every row
// comes from the newest run that measured Pinion and a peer, or else from the
// newest that measured one of them, and names it.
func comparison(runs []*run) string {
	for _, onHost := range []bool{false, true} {
		var chosen []*run
		machine := ""
		for _, r := range runs {
			device, name := r.device()
			if device == "" && name == "" || isHost(device, name) != onHost {
				continue
			}
			if machine = cmp.Or(machine, name); name == "" || name == machine {
				chosen = append(chosen, r)
			}
		}
		if text := compare(chosen); text != "" {
			return text + "\n"
		}
	}
	return nothing
}

// device is the id and the name of the device that Pinion was measured on, as
// far as the files say.
func (r *run) device() (id, name string) {
	var all []provenance
	for _, f := range r.links {
		all = append(all, f.provenance)
	}
	for _, f := range r.moves {
		all = append(all, f.provenance)
	}
	for _, kind := range []string{feeding, weights, steps} {
		for _, f := range r.compared[kind] {
			all = append(all, f.provenance)
		}
	}
	for _, f := range r.feeds {
		all = append(all, f.provenance)
	}
	for _, p := range all {
		if p.Commit != "" && !(aboutHost(p.file) && id+name != "") {
			id, name = cmp.Or(id, p.Device), cmp.Or(name, p.DeviceName)
		}
	}
	return id, name
}

func isHost(id, name string) bool { return strings.HasPrefix(cmp.Or(id, name), "host") }

// compare is the tables of runs on one device, the newest first.
func compare(runs []*run) string {
	t, tied := compareRows(runs)
	h := compareMoves(runs)
	if len(t.rows)+len(h.rows)+len(tied) == 0 {
		return ""
	}
	var w strings.Builder
	where := ""
	for _, r := range runs {
		if link := r.link(); link != nil {
			where = fmt.Sprintf("%s, %d CPUs. ", link.machine(), link.CPUs)
			break
		}
	}
	fmt.Fprintf(&w, "\n%sMedians; their spread, settings and commits are in [docs/benchmarks.md](docs/benchmarks.md), by run.\n", plain(where))
	t.write(&w)
	h.write(&w)
	if tied != nil {
		fmt.Fprintf(&w, "\nWithin 5 %% of the best peer: %s.\n", strings.Join(tied, "; "))
	}
	w.WriteString(compareSteps(runs))
	return w.String()
}

// compareRows is a table of the quantities, and the titles of those in which
// Pinion and the best peer tie.
func compareRows(runs []*run) (t *table, tied []string) {
	type row struct {
		quantity
		run    *run
		values map[string]float64 // by column
	}
	var rows []row
	var names []string
	for _, q := range quantities {
		var best row
		for _, r := range runs {
			found := row{q, r, map[string]float64{}}
			for _, c := range r.columns() {
				if v, ok := c.values[q]; ok {
					found.values[c.name] = v
				}
			}
			if _, own := found.values[pinion]; own && len(found.values) > 1 {
				best = found
				break
			}
			if best.run == nil && len(found.values) > 0 {
				best = found
			}
		}
		switch {
		case best.run == nil:
		case q.tied(best.values):
			tied = append(tied, q.title)
		default:
			rows = append(rows, best)
			for name := range best.values {
				if name != pinion && !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
	}
	slices.Sort(names)
	names = append([]string{pinion}, names...)
	head := []string{""}
	for _, name := range names {
		head = append(head, ">"+plain(name))
	}
	t = newTable(append(head, "run")...)
	for _, r := range rows {
		cells := []string{r.title}
		for _, name := range names {
			v, ok := r.values[name]
			cells = append(cells, r.text(v, ok))
		}
		t.add(append(cells, plain(r.run.name))...)
	}
	return t, tied
}

// tied reports whether Pinion's value is within 5 % of the best peer's.
func (q quantity) tied(values map[string]float64) bool {
	own, best := values[pinion], 0.0
	for name, v := range values {
		if name != pinion && (best == 0 || (v < best) == (q.unit == "s")) {
			best = v
		}
	}
	return own > 0 && best > 0 && math.Abs(own/best-1) <= 0.05
}

// compareMoves is some rows of bench/moves, each beside the best of the peers'.
func compareMoves(runs []*run) *table {
	t := newTable("", ">Pinion", ">best peer", "by", "run")
	for _, h := range []struct{ name, title string }{
		{"scattered 16 KiB h2d", "blocks of 16 KiB from scattered places in pinned memory to the device"},
		{"pageable both", "ordinary memory, both directions at once"},
		{"file in page cache h2d", "file in the page cache to the device"},
		{"disk h2d", "file on the disk to the device"},
	} {
		if cells := newestMove(runs, h.name); cells != nil {
			t.add(append([]string{h.title}, cells...)...)
		}
	}
	return t
}

// newestMove is the cells of a row of that name: of the newest run that has it
// and a peer's, or else of the newest that has it.
func newestMove(runs []*run, name string) (cells []string) {
	for _, r := range runs {
		for _, f := range r.moves {
			for _, row := range f.Rows {
				if f.file != moves || row.Name != name {
					continue
				}
				value, by := f.bestPeer(row, r.peers)
				if by != "" || cells == nil {
					cells = []string{row.text(row.Value), value, by, plain(r.name)}
				}
				if by != "" {
					return cells
				}
			}
		}
	}
	return cells
}

const pinion = "Pinion" // the column

// column is the values of one program by quantity: of several files, such as
// those of before and after Pinion's, the median.
type column struct {
	name   string
	values map[quantity]float64
	all    map[quantity][]float64
}

// columns are Pinion and the peers in the order of their names. What a peer
// says behind its last comma, such as the version of a part, makes no column
// of its own.
func (r *run) columns() []*column {
	own := &column{name: pinion, values: map[quantity]float64{}}
	for _, q := range quantities {
		if v, ok := r.own(q); ok {
			own.values[q] = v
		}
	}
	var peers []*column
	peer := func(name string) *column {
		if i := strings.LastIndex(name, ", "); i >= 0 {
			name = name[:i]
		}
		i := slices.IndexFunc(peers, func(c *column) bool { return c.name == name })
		if i < 0 {
			i = len(peers)
			peers = append(peers, &column{name, map[quantity]float64{}, map[quantity][]float64{}})
		}
		return peers[i]
	}
	offer := func(name, file string, rows []peerRow) {
		for _, q := range quantities {
			if q.kind != "" || q.host != aboutHost(file) {
				continue
			}
			for _, row := range rows {
				peer(name).offer(q, row)
			}
		}
	}
	for _, f := range r.peers {
		if f.What != moves && f.What != processes { // they have tables of their own
			offer(f.Peer, f.file, f.Rows)
		}
	}
	for _, f := range r.compared[feeding] {
		if f.Commit == "" {
			offer(f.Peer, f.file, f.fedPhotos())
		}
	}
	for _, q := range quantities {
		for _, f := range r.compared[q.kind] {
			for _, row := range f.Rows {
				if f.Commit == "" && strings.HasPrefix(row.By, q.by) {
					peer(f.Peer).offer(q, row.peerRow)
				}
			}
		}
	}
	peers = slices.DeleteFunc(peers, func(c *column) bool { return len(c.values) == 0 })
	slices.SortFunc(peers, func(a, b *column) int { return strings.Compare(a.name, b.name) })
	return append([]*column{own}, peers...)
}

func aboutHost(file string) bool { return strings.HasPrefix(file, "host-") }

// offer takes a peer's row if it is of that quantity.
func (c *column) offer(q quantity, row peerRow) {
	v := row.Value
	if seconds, ok := secondsPer[row.Unit]; ok && q.unit == "s" {
		v *= seconds
	} else if row.Unit != q.unit {
		return
	}
	switch {
	case q.name == "":
		c.values[q] = max(c.values[q], v)
	case strings.EqualFold(row.Name, q.name):
		c.all[q] = append(c.all[q], v)
		c.values[q] = stats.Median(c.all[q])
	}
}

// link is the run's link-curves.json or link.json, or nil.
func (r *run) link() *linkFile {
	for _, name := range []string{"link-curves", "link"} {
		for _, f := range r.links {
			if f.file == name {
				return f
			}
		}
	}
	return nil
}

// own finds Pinion's value.
func (r *run) own(q quantity) (v float64, ok bool) {
	switch {
	case q.unit == images:
		return r.ownImages(q.host)
	case q.kind != "":
		return r.ownCompared(q)
	}
	f := r.link()
	if f == nil || q.host {
		return 0, false
	}
	// Ordinary memory goes through the copiers in package transfer.
	path, direction, _ := strings.Cut(strings.Replace(q.name, "pageable", "staged", 1), " ")
	for _, b := range f.Bulk {
		if b.Path == path && b.Direction == direction {
			return b.GBPerS, true
		}
	}
	for _, t := range f.Small {
		if strings.EqualFold(t.What, q.name) {
			return t.Seconds, true
		}
	}
	for _, t := range f.Pin {
		if q.name == "pin 1 gib" && f.SizeBytes == 1<<30 && t.What == "pinned pool" {
			return t.Seconds, true
		}
	}
	return 0, false
}

// ownCompared is the median of Pinion's rows of that name on a device.
func (r *run) ownCompared(q quantity) (v float64, ok bool) {
	c := column{values: map[quantity]float64{}, all: map[quantity][]float64{}}
	for _, f := range r.compared[q.kind] {
		for _, row := range f.Rows {
			if f.Commit != "" && !isHost(f.Device, f.DeviceName) {
				c.offer(q, row.peerRow)
			}
		}
	}
	v, ok = c.values[q]
	return v, ok
}

// ownImages is the best rate of photos into float32, which is what the peers
// make: on the device of the link, or in the files about the host.
func (r *run) ownImages(host bool) (v float64, ok bool) {
	for _, f := range r.feeds {
		comparable := f.photos() && f.DType == "f32" && aboutHost(f.file) == host
		if link := r.link(); link != nil && !host {
			comparable = comparable && f.Device == link.Device
		}
		if comparable {
			median, _, _ := f.rate()
			v = max(v, median)
		}
	}
	for _, f := range r.compared[feeding] {
		comparable := f.Commit != "" && aboutHost(f.file) == host
		if link := r.link(); link != nil && !host {
			comparable = comparable && f.DeviceName == link.DeviceName
		}
		if comparable {
			for _, row := range f.fedPhotos() {
				v = max(v, row.Value)
			}
		}
	}
	return v, v > 0
}

// fedPhotos are the rows about photos into float32 batches, wherever they are
// decoded.
func (f *comparedFile) fedPhotos() (rows []peerRow) {
	for _, r := range f.Rows {
		if r.Unit == images && strings.HasPrefix(r.Name, "photos to 224-px f32 batches of 64") {
			rows = append(rows, r.peerRow)
		}
	}
	return rows
}

// text prints a value of q.
func (q quantity) text(v float64, ok bool) string {
	switch {
	case !ok:
		return ""
	case q.unit == "s":
		return duration(v)
	}
	return number(v) + " " + q.unit
}
