// Package provenance says where and when a result was measured, by which code.
package provenance

import (
	"runtime"
	"runtime/debug"
	"time"
)

// Record is a part of every result.
type Record struct {
	MeasuredAt string `json:"measured_at"` // RFC 3339
	Commit     string `json:"commit"`      // of this program; "unknown" where the build does not say
	Platform   string `json:"platform"`    // system, architecture and version of Go
	CPUs       int    `json:"cpus"`
}

// Now is the record of what is measured now.
func Now() Record {
	r := Record{
		MeasuredAt: time.Now().UTC().Format(time.RFC3339),
		Commit:     "unknown",
		Platform:   runtime.GOOS + "/" + runtime.GOARCH + " " + runtime.Version(),
		CPUs:       runtime.NumCPU(),
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				r.Commit = s.Value
			case s.Key == "vcs.modified" && s.Value == "true":
				r.Commit += " with changes"
			}
		}
	}
	return r
}

// Version is the commit and the platform.
func (r Record) Version() string { return r.Commit + " " + r.Platform }
