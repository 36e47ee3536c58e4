package main

import (
	"fmt"
	"slices"
	"strings"
)

// quantity is a row of the README's table. A peer's value is its row of that
// name; Pinion's is found in link-curves.json, or link.json, and the feed files. Files whose names
// begin with "host-" are of runs on the host alone.
type quantity struct {
	title string
	unit  string // that a row must have, or "s" for any unit of time
	name  string // of the peers' rows, in lower case; "" takes the best row of that unit
	host  bool   // of the files about the host alone
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
	{title: "JPEG photos into float32 batches on the device, best setting", unit: images},
	{title: "JPEG photos into float32 batches without a GPU, best setting", unit: images, host: true},
}

// comparison is the README's tables: Pinion and its peers in the newest run on
// a device other than the host, or else in the newest with such results. What
// that run did not measure comes from the newest before it that did.
func comparison(runs []*run) string {
	for _, accelerated := range []bool{true, false} {
		known := map[string]bool{} // by title
		text := ""
		for _, r := range runs {
			if link := r.link(); accelerated && (link == nil || onHost(link.Device)) {
				continue
			}
			text += r.comparison(known)
		}
		if text != "" {
			return text + "\n"
		}
	}
	return nothing
}

func onHost(device string) bool { return strings.HasPrefix(device, "host") }

// comparison is the tables of what is not known yet, which it then is.
func (r *run) comparison(known map[string]bool) string {
	columns := r.columns()
	head := []string{""}
	for _, c := range columns {
		head = append(head, ">"+plain(c.name))
	}
	t := newTable(head...)
	for _, q := range quantities {
		row, measured := []string{q.title}, false
		for _, c := range columns {
			v, ok := c.values[q]
			measured = measured || ok
			row = append(row, q.text(v, ok))
		}
		if measured && !known[q.title] {
			t.add(row...)
			known[q.title] = true
		}
	}
	headlines := r.headlines(known)
	if len(t.rows)+len(headlines.rows) == 0 {
		return ""
	}
	where := ""
	if link := r.link(); link != nil {
		where = fmt.Sprintf("%s, %d CPUs. ", link.machine(), link.CPUs)
	}
	var w strings.Builder
	fmt.Fprintf(&w, "\n%sRun %s; medians. Spread, settings and commit are in [docs/benchmarks.md](docs/benchmarks.md).\n",
		plain(where), plain(r.name))
	t.write(&w)
	headlines.write(&w)
	return w.String()
}

// headlines are some rows of moves.json, each beside the best of the peers'.
func (r *run) headlines(known map[string]bool) *table {
	t := newTable("", ">Pinion", ">best peer", "by")
	for _, f := range r.moves {
		if f.file != moves {
			continue
		}
		for _, h := range []struct{ name, title string }{
			{"scattered 16 KiB h2d", "blocks of 16 KiB from scattered places in pinned memory to the device"},
			{"pageable both", "ordinary memory, both directions at once"},
			{"file in page cache h2d", "file in the page cache to the device"},
			{"disk h2d", "file on the disk to the device"},
		} {
			for _, row := range f.Rows {
				if row.Name == h.name && !known[h.title] {
					value, by := f.bestPeer(row, r.peers)
					t.add(h.title, row.text(row.Value), value, by)
					known[h.title] = true
				}
			}
		}
	}
	return t
}

// column is the values of one program by quantity.
type column struct {
	name   string
	values map[quantity]float64
}

// columns are Pinion and the peers in the order of their names. What a peer
// says behind its last comma, such as the version of a part, makes no column
// of its own.
func (r *run) columns() []*column {
	own := &column{"Pinion", map[quantity]float64{}}
	for _, q := range quantities {
		if v, ok := r.own(q); ok {
			own.values[q] = v
		}
	}
	var peers []*column
	offer := func(peer, file string, rows []peerRow) {
		name := peer
		if i := strings.LastIndex(name, ", "); i >= 0 {
			name = name[:i]
		}
		i := slices.IndexFunc(peers, func(c *column) bool { return c.name == name })
		if i < 0 {
			i = len(peers)
			peers = append(peers, &column{name, map[quantity]float64{}})
		}
		for _, q := range quantities {
			if q.host != aboutHost(file) {
				continue
			}
			for _, row := range rows {
				peers[i].offer(q, row)
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
	peers = slices.DeleteFunc(peers, func(c *column) bool { return len(c.values) == 0 })
	slices.SortFunc(peers, func(a, b *column) int { return strings.Compare(a.name, b.name) })
	return append([]*column{own}, peers...)
}

func aboutHost(file string) bool { return strings.HasPrefix(file, "host-") }

// offer takes a peer's row if it is of that quantity: the first of its name,
// or the best of its unit.
func (c *column) offer(q quantity, row peerRow) {
	v := row.Value
	if seconds, ok := secondsPer[row.Unit]; ok && q.unit == "s" {
		v *= seconds
	} else if row.Unit != q.unit {
		return
	}
	have, ok := c.values[q]
	if q.name == "" && v > have || strings.EqualFold(row.Name, q.name) && !ok {
		c.values[q] = v
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
	if q.unit == images {
		return r.ownImages(q.host)
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
