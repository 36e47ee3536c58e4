// Package harness is what the programs of this folder that measure Pinion have
// in common: how a device is opened and a document printed, groups of rows and
// the memory of each, and how rows are timed.
//
// A program's [Main] measures and prints; its flags begin with [Options]. Its
// document is a [Document], with keys of its own behind it where it has more to
// say, and its rows embed [Row]. [Run] opens the device and prints the document,
// [Document.Measure] measures the groups of rows that are asked for:
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
// [Sample]s, or as what embeds one, and adds them by [Add]. That checks each of
// them, warms it up, and times them in turn, one repeat of each after the other
// (see [InTurn]): a clock or a link that drifts meets all of them alike. A row
// is the median of its repeats with the least and the most. What the device or
// the machine cannot do is no error but skipped, see [Impossible].
package harness
