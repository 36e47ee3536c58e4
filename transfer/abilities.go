package transfer

import "github.com/pinion-gpu/pinion/device"

// abilities is what a device can do that a path of copies needs; nil is what
// it cannot. They are asked for once, when an engine is made.
type abilities struct {
	peers  device.PeerCopier
	files  device.FileMover
	ranges device.RangeChecker
	batch  device.BatchCopier
	box    device.BoxCopier
	inGo   bool // its kernels are Go functions
}

func abilitiesOf(dev device.Device) (a abilities) {
	a.peers, _ = device.As[device.PeerCopier](dev)
	a.files, _ = device.As[device.FileMover](dev)
	a.ranges, _ = device.As[device.RangeChecker](dev)
	a.box, _ = device.As[device.BoxCopier](dev)
	if b, ok := device.As[device.BatchCopier](dev); ok && b.CanCopyBatch() {
		a.batch = b
	}
	_, a.inGo = device.As[device.Caller](dev)
	return a
}
