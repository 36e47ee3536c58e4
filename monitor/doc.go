// Package monitor tells what Pinion holds and does in this process: device memory by
// purpose, pinned memory, what moved in which direction by which path, the tiers of
// arrays, and the stages of loaders.
//
// [Take] takes a snapshot of all pools, engines, stores and loaders that are open:
// nothing has to be registered.
//
//	s := monitor.Take()
//	for _, v := range s.VRAM {
//		fmt.Println(v.Device, v.ReservedBytes, v.Purposes)
//	}
//
// A [Snapshot] is plain data, and as JSON it has the keys of the command's other
// documents. Rates come from two of them:
//
//	before := monitor.Take()
//	time.Sleep(time.Second)
//	d := monitor.Take().Since(before)
//	for _, t := range d.Transfer {
//		for _, w := range t.Traffic {
//			fmt.Println(t.Device, w.Direction, w.Path, float64(w.Bytes)/d.Seconds/1e9, "GB/s")
//		}
//	}
//
// # Prometheus
//
// [MetricsHandler] serves the same numbers in Prometheus' text format:
//
//	http.Handle("/metrics", monitor.MetricsHandler())
//
// Names begin with pinion_ and the package that they come from. Series are by
// device, and then by purpose, direction and path, tier or stage. There are no
// series for single pools or loaders, so their number stays small however many come
// and go.
//
// # Leaks
//
// [Track] runs the body of a loop, tells what each step leaves behind from what is
// only cached, and names the lines that are responsible. Package leaks does the same
// for other loops.
//
// # Cost
//
// The packages count always, as part of what they do: with locks that they hold
// anyway, or by atomic additions, of which there are three a copy of an engine and
// four a task of a loader's worker. Goroutines add in cache lines of their own. A
// snapshot holds each pool up for some microseconds. There is no goroutine.
//
// # What is counted
//
// What is open in this process counts, also what Pinion's own packages have opened
// inside, such as the ring of an engine. What was closed stays in the counts, so that
// they never fall. Memory that a loader or a store has from a pool is shown by both:
// do not add up the lists of a snapshot.
package monitor
