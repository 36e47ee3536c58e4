package main

// #include "pinion.h"
import "C"

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/errs"
	"github.com/pinion-gpu/pinion/timeline"
)

// recording is what pinion_timeline_start reads.
type recording struct {
	Records int `json:"records"`
}

// recorded is what a recording found.
type recorded struct {
	Report timeline.Report `json:"report"`
	Text   string          `json:"text"` // the report's, for people
}

// pinion_timeline_start begins the recording of this process.
//
//export pinion_timeline_start
func pinion_timeline_start(arguments *C.char, n C.int64_t) (result C.int) {
	defer guard(&result)
	var r recording
	if err := parse(arguments, n, &r); err != nil {
		return fail(err)
	}
	var err error
	elsewhere(func() { _, err = timeline.Start(timeline.Options{Records: r.Records, Others: true}) })
	return fail(err)
}

// pinion_timeline_stop ends the recording and writes it to a file, as a task. Its value
// is a text for pinion_memory_text.
//
//export pinion_timeline_stop
func pinion_timeline_stop(path *C.char, n C.int64_t, task *C.uint64_t) (result C.int) {
	defer guard(&result)
	file := C.GoStringN(path, C.int(n))
	r := timeline.Current()
	if r == nil {
		return fail(fmt.Errorf("timeline: %w: no recording is on", errs.ErrArgument))
	}
	return start(task, func(id uint64) { texts.take(id) }, func(context.Context) (uint64, error) {
		r.Stop()
		report := r.Report()
		var text bytes.Buffer
		err := errors.Join(report.Write(&text), r.WriteFile(file))
		if err != nil {
			return 0, err
		}
		b, err := json.Marshal(recorded{report, text.String()})
		return texts.add(string(b)), err
	})
}

// onTimeline is a device whose work the recording has, if one is on.
func onTimeline(dev device.Device) device.Device {
	if r := timeline.Current(); r != nil {
		return r.Wrap(dev)
	}
	return dev
}
