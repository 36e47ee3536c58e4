// Package provenance says where and when a result was measured, by which code.
package provenance

import (
	"cmp"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/pinion-gpu/pinion/internal/cpuname"
)

// Record is the head of every document.
type Record struct {
	MeasuredAt string `json:"measured_at"`   // RFC 3339, UTC
	Version    string `json:"version"`       // of the module; "(devel)" where the build does not say
	Commit     string `json:"commit"`        // of this program; "unknown" where the build does not say
	Platform   string `json:"platform"`      // system, architecture and version of Go
	CPU        string `json:"cpu,omitempty"` // the processor's model
	CPUs       int    `json:"cpus"`

	// The device that was used, if any: see [Record.On].
	Device     string `json:"device,omitempty"`
	DeviceName string `json:"device_name,omitempty"`
}

// commit is that of a build in a work tree of which Go cannot tell it, such as
// one of several of a repository: go build -ldflags "-X …/provenance.commit=…".
var commit string

// Now is the record of what is measured now.
func Now() Record {
	r := Record{
		MeasuredAt: time.Now().UTC().Format(time.RFC3339),
		Version:    "(devel)",
		Commit:     "unknown",
		Platform:   runtime.GOOS + "/" + runtime.GOARCH + " " + runtime.Version(),
		CPU:        cpuname.Name(),
		CPUs:       runtime.NumCPU(),
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		r.Version = cmp.Or(info.Main.Version, r.Version)
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				r.Commit = s.Value
			case s.Key == "vcs.modified" && s.Value == "true":
				r.Commit += " with changes"
			}
		}
	}
	r.Commit = cmp.Or(commit, r.Commit)
	return r
}

// On adds the device that was measured: its id, such as "cuda:0", and the
// vendor's name for it.
func (r Record) On(id, name string) Record {
	r.Device, r.DeviceName = id, name
	return r
}
