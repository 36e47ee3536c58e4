// Package linkmodel holds what copies between host and device cost on one
// machine, and chooses the fastest way for each size.
//
// A [Model] is a set of measured curves: pageable memory copied by the driver
// and staged through pinned memory by several numbers of copiers, pinned
// memory copied straight, and many blocks at once, each in both directions.
// Package calibrate measures one; [Model.Save] and [Load] keep it in the user's
// cache directory, where a transfer engine finds it:
//
//	m, err := linkmodel.Load(dev)
//	if errors.Is(err, linkmodel.ErrNoModel) {
//		// Nothing was measured yet, or on another machine or driver.
//	}
//	c := m.Choice(64<<20, false) // 64 MiB of pageable memory to the device
//	fmt.Println(c.Path, c.Copiers, c.Seconds)
//
// The package imports no engine: an engine asks it for a [Table] once, and
// looks sizes up there.
package linkmodel
