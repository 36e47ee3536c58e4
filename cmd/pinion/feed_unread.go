package main

import (
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/cli"
	"github.com/pinion-gpu/pinion/loader"
)

// unreadSamples names the samples that could not be read, and keeps them for
// the JSON document.
type unreadSamples struct {
	line   *cli.Progress
	policy loader.ErrorPolicy
	list   int  // how many are named
	keep   bool // whether rows are kept

	seen  map[visit]bool
	named int
	rows  []unreadRow
}

// visit is a sample in an epoch.
type visit struct{ epoch, index int }

// unreadRow is a sample that could not be read, in the JSON document.
type unreadRow struct {
	Epoch  int    `json:"epoch"`
	Index  int    `json:"index"`
	Sample string `json:"sample"` // its name
	Error  string `json:"error"`
}

// add notes a sample, unless it was tried before in the place of another one.
func (u *unreadSamples) add(err *loader.SampleError) loader.ErrorPolicy {
	v := visit{err.Epoch, err.Index}
	if u.seen[v] || u.named >= u.list && !u.keep {
		return u.policy
	}
	if u.seen == nil {
		u.seen = map[visit]bool{}
	}
	u.seen[v] = true
	if u.keep {
		u.rows = append(u.rows, unreadRow{err.Epoch, err.Index, err.Name, cli.ErrorText(err.Err)})
	}
	if u.named < u.list {
		u.named++
		u.line.Message("%s: %s", u.verb(), cli.ErrorText(err))
	}
	return u.policy
}

// finish counts those of all that were not named.
func (u *unreadSamples) finish(all int64) {
	if more := all - int64(u.named); more > 0 {
		u.line.Message("%s: %d more; --list-errors %d names all", u.verb(), more, all)
	}
}

func (u *unreadSamples) verb() string {
	if u.policy == loader.Replace {
		return "replaced"
	}
	return "skipped"
}
