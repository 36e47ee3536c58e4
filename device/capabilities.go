package device

// capabilities is what a device can be asked for beyond [Device], each with
// the name that people read.
var capabilities = []struct {
	name string
	has  func(Device) bool
}{
	{"pinned", has[Pinner](nil)},
	{"mapped", has(Pinner.CanMap)},
	{"write-combined", has[HostAllocator](nil)},
	{"managed", has(Manager.CanManage)},
	{"virtual-memory", has(Mapper.CanReserve)},
	{"stream-ordered-allocation", has(StreamAllocator.CanAllocAsync)},
	{"batch", has(BatchCopier.CanCopyBatch)},
	{"box", has[BoxCopier](nil)},
	{"peer", has[PeerCopier](nil)},
	{"context-events", has(ContextRecorder.CanRecordAll)},
	{"graphs", has(Capturer.CanCapture)},
	{"files", has[FileMover](nil)},
	{"range-check", has[RangeChecker](nil)},
	{"kernels", has[Launcher](nil)},
	{"go-kernels", has[Caller](nil)},
	{"sharing", has(Sharer.CanShare)},
	{"native", has[Native](nil)},
}

// has asks for a T that says it is able, or for any when able is nil.
func has[T any](able func(T) bool) func(Device) bool {
	return func(dev Device) bool {
		t, ok := As[T](dev)
		return ok && (able == nil || able(t))
	}
}

// Capabilities names what dev can do beyond the Device interface, in a fixed
// order, for people to read. Programs ask with [As], and where a capability
// has a method Can… they ask that too.
func Capabilities(dev Device) []string {
	var have []string
	for _, c := range capabilities {
		if c.has(dev) {
			have = append(have, c.name)
		}
	}
	return have
}
