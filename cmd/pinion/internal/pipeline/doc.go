// Package pipeline is what the commands of pinion that read a dataset share: the
// flags that describe a pipeline, and opening what they name.
//
//	var f pipeline.Flags
//	f.Register(cmd, false)
//	…
//	o, err := f.Options(cmd)
//	err = f.Use(cmd, args, prepare, func(in *pipeline.Input) error { … })
//
// To add a flag, declare it in [Flags.Register] and apply it in
// [Flags.Options]. Flags of a format come from the format: see
// [dataset.Format].
package pipeline
