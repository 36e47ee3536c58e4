// Package harness is what the programs of this folder share: how a device is
// opened and a document printed, groups of rows and the memory of each. Package
// internal/measure does the timing.
//
// A program's [Main] measures and prints; its flags begin with [Options]. Its
// document is a [Document], with keys of its own after it where it has more to
// say; its rows embed [measure.Row]. [Run] opens the device and prints the
// document, [Document.Measure] measures the groups of rows that are asked for:
//
//	err := harness.Run(o.Device, os.Stdout, func(dev device.Device) (any, error) {
//		b := &bench{Document: harness.NewDocument[row](dev, "moves", 7)}
//		err := b.Measure(ctx, dev, o.Only, []harness.Group{
//			{Name: "scattered", Measure: b.scattered},
//			{Name: "pageable", Measure: b.pageable},
//		})
//		return b.Document, err
//	})
//
// A group takes what it needs from its [Memory], describes its rows as
// [measure.Sample]s, or as types that embed one, and adds them by [Add]. What the
// device or the machine cannot do is skipped, not an error: see [Impossible].
package harness
