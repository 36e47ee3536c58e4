// Package numa puts memory and the threads that copy it near a device. On a
// machine with several memory nodes (sockets, mostly) a device is attached to one of
// them, and a copy from another node crosses the link between the sockets,
// which is shared and may be slower than the device's own.
//
//	b, err := pagemem.Map(64 << 20)
//	err = numa.Bind(b, info.NUMANode) // before the first touch
//	err = pagemem.Populate(b, 0)
//
//	go func() {
//		leave, _ := numa.Enter(info.NUMANode)
//		defer leave()
//		… copy …
//	}()
//
// Placement is advice: it makes copies faster and changes nothing else. So the
// calls do nothing where there is nothing to place, which is where the node is
// -1 (unknown), where the machine has one node, and on systems other than
// Linux; [Known] tells. Where the system refuses, as a container's system call
// filter may, they return the reason, and the caller goes on without.
//
// The nodes are read once, from /sys/devices/system/node. Their CPUs are those
// that the process was allowed at that time.
package numa
