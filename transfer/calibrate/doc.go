// Package calibrate measures what copies between host and device cost, as a
// [linkmodel.Model] by which transfer engines choose their paths.
//
//	m, measured, err := calibrate.LoadOrRun(ctx, dev, calibrate.Options{})
//	engine, err := transfer.New(dev, transfer.Options{Model: m})
//
// "pinion bench link --calibrate" does the same from the command line. An
// engine that is made afterwards finds the model by itself.
package calibrate
