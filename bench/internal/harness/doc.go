// Package harness is what the programs of this folder that measure Pinion have
// in common: how a device is opened and a document printed, the memory of a
// group of rows, and how rows are timed.
//
// A program's document begins with a [Head] and has a list of rows and one of
// what was [Skipped]. Its own rows embed [Row] and say more. [Run] opens the
// device and prints the document:
//
//	err := harness.Run("cuda:0", os.Stdout, func(dev device.Device) (any, error) {
//		d := &document{Head: harness.NewHead(dev, "moves", 7)}
//		m, err := harness.NewMemory(dev)
//		if err != nil {
//			return nil, err
//		}
//		err = errors.Join(d.group(ctx, m), m.Close())
//		return d, err
//	})
//
// A group takes what it needs from its [Memory] and describes its rows as
// [Sample]s. [InTurn] checks each of them, warms it up, and times them in turn,
// one repeat of each after the other: a clock or a link that drifts meets all of
// them alike. A row is the median of its repeats with the least and the most.
// What the device or the machine cannot do is no error but skipped, see
// [Impossible].
package harness
