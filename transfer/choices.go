package transfer

import (
	"errors"
	"fmt"
	"time"

	"github.com/pinion-gpu/pinion/transfer/linkmodel"
)

// ModelSource is where an engine has its model from.
type ModelSource string

// The sources of a model.
const (
	ModelFile   ModelSource = "file"   // measured, read from the user's cache directory
	ModelOption ModelSource = "option" // Options.Model
	ModelRules  ModelSource = "rules"  // none: rules of thumb
)

// ModelInfo says what an engine chooses its paths by.
type ModelInfo struct {
	Source ModelSource
	Model  *linkmodel.Model // nil for rules of thumb; it is only read
	File   string           // that Model was read from
	Reason error            // why there are only rules of thumb; nil if they were asked for
}

// String is one line for people.
func (i ModelInfo) String() string {
	measured := ""
	if i.Model != nil && !i.Model.MeasuredAt.IsZero() {
		measured = " measured " + i.Model.MeasuredAt.Format(time.RFC3339)
	}
	switch {
	case i.Source == ModelFile:
		return fmt.Sprintf("a model%s (%s)", measured, i.File)
	case i.Source == ModelOption:
		return "a model of the caller's" + measured
	case i.Reason != nil:
		return fmt.Sprintf("rules of thumb: %v", i.Reason)
	}
	return "rules of thumb"
}

// Model says what the engine chooses its paths by: a measured model and where
// it comes from, or rules of thumb and why.
func (e *Engine) Model() ModelInfo { return e.model }

// findModel sets the model of an engine whose options were checked.
func (e *Engine) findModel(integrated bool) {
	m := e.options.Model
	switch {
	case m != nil && len(m.Paths)+len(m.Pinned)+len(m.Batches) > 0:
		e.model = ModelInfo{Source: ModelOption, Model: m}
	case m != nil: // an empty one
		e.model = ModelInfo{Source: ModelRules}
	case integrated:
		e.model = ModelInfo{Source: ModelRules, Reason: errNoLink}
	default:
		// One that is missing or cannot be read is no reason to fail.
		m, err := linkmodel.Load(e.dev)
		if err != nil {
			e.model = ModelInfo{Source: ModelRules, Reason: err}
			return
		}
		file, _ := linkmodel.File(e.dev)
		e.model = ModelInfo{Source: ModelFile, Model: m, File: file}
		e.options.Model = m
	}
}

var errNoLink = errors.New("the device shares the host's memory: there is no link to measure")
