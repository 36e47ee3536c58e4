package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

const nothing = "\nNo run has been recorded yet.\n\n"

// report is docs/benchmarks.md: every run with all its tables.
func report(runs []*run) string {
	if len(runs) == 0 {
		return nothing
	}
	var w strings.Builder
	for _, r := range runs {
		fmt.Fprintf(&w, "\n## %s\n", plain(r.name))
		r.writeTargets(&w)
		for _, f := range r.devices {
			f.write(&w)
		}
		for _, f := range r.links {
			f.write(&w)
		}
		for _, f := range r.managed {
			f.write(&w)
		}
		for _, f := range r.tiers {
			f.write(&w)
		}
		writeOutOfCore(&w, r.compared[outofcore])
		writeSteps(&w, r.compared[steps])
		writeCompared(&w, ranked, r.compared[ranked])
		for _, f := range r.moves {
			f.write(&w, r.peers)
		}
		for _, kind := range slices.Sorted(maps.Keys(r.turns)) {
			writeTurns(&w, kind, r.turns[kind])
		}
		writeCompared(&w, hold, r.compared[hold])
		writeReplays(&w, r.replays)
		writeCompared(&w, weights, r.compared[weights])
		for _, f := range r.processes {
			f.write(&w)
		}
		writeCompared(&w, feeding, r.compared[feeding])
		writeCompared(&w, folder, r.compared[folder])
		writeCompared(&w, traced, r.compared[traced])
		writeFeeds(&w, r.feeds)
		writeTunes(&w, r.tunes)
		for _, f := range r.peers {
			f.write(&w)
		}
	}
	w.WriteByte('\n')
	return w.String()
}
