// Package doctor looks at what commonly makes a GPU slow to feed, or fail: its
// link, pinned memory, the limits of containers, the driver and its libraries,
// disks. Each check says what it measured, why that matters, and what to do.
//
//	report, err := doctor.Run(ctx, doctor.Options{Child: []string{"doctor", "child"}})
//	if err != nil {
//		return err
//	}
//	report.Write(os.Stdout)
//	if report.Failed() { … }
//
// What could hang or crash runs in processes of its own, each with a deadline:
// this executable again, started with Options.Child and the name of a probe, where
// the program calls [Child]. A probe that hangs or crashes is a check that failed,
// and the others go on. The process that calls [Run] loads no library and touches
// no device.
//
// # Reading a report
//
// A check that is [Fail] found something broken, [Warn] something that is slower
// or smaller than it could be. [Skipped] checks say why: most need a GPU.
//
// # How it is built
//
// A probe gathers facts, once, and a check is a function of those facts and of the
// files of the system. So every check can be tested on a machine that a test made
// up.
package doctor
