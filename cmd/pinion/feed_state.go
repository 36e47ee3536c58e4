package main

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/cli"
	"github.com/pinion-gpu/pinion/loader"
)

// loadState reads the state that a run is to go on from.
func (f *feedFlags) loadState(o *loader.Options) error {
	if f.resume == "" {
		return nil
	}
	state, err := loader.ReadState(f.resume)
	if err != nil {
		return fmt.Errorf("--resume: %w", cli.Advise(err, "--save-state writes such a file"))
	}
	o.Resume = &state
	return nil
}

// checkPlaces fails, before the run rather than after it, where a file could not
// be written, or would overwrite what is read.
func (f *feedFlags) checkPlaces(cmd *cobra.Command, read []string) error {
	err := cmp.Or(notOver(cmd, read, "digests", f.digests), notOver(cmd, read, "save-state", f.saveState))
	if err != nil {
		return err
	}
	if cli.SamePath(f.digests, f.saveState) || cli.SamePath(f.digests, f.resume) {
		return cli.BadUsage(cmd, "--digests and the state cannot both be %s", f.digests)
	}
	if f.saveState == "" {
		return nil
	}
	if err := cli.CheckFile(f.saveState); err != nil {
		return fmt.Errorf("cannot save the state: %w", err)
	}
	return nil
}

// notOver fails where the file that a flag names is among what is read.
func notOver(cmd *cobra.Command, read []string, flag, path string) error {
	for _, data := range read {
		if cli.SamePath(data, path) {
			return cli.BadUsage(cmd, "--%s would be written over the data in %s", flag, data)
		}
	}
	return nil
}

// keepState saves where a run is, also where it was cut short, and says how to
// go on.
func (f *feedFlags) keepState(line *cli.Progress, state loader.State) error {
	if f.saveState == "" {
		return nil
	}
	if err := state.WriteFile(f.saveState); err != nil {
		return cli.Lost(fmt.Errorf("could not save the state: %w", err))
	}
	line.Message("Saved: next is batch %d of epoch %d; continue with --resume %s", state.Batch, state.Epoch, f.saveState)
	return nil
}
