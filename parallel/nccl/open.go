package nccl

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sync/errgroup"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/dl"
	"github.com/pinion-gpu/pinion/parallel"
)

// Open makes the communicator of a rank whose memory is on dev. All ranks call it.
// exchange gives each rank the bytes of all, in the order of ranks: control.Group.Exchange
// does, and where there is one rank, it may be nil. A context that ends while other ranks
// are waited for ends that.
//
// It fails on all ranks, with the rank that is the reason: with [device.ErrNotSupported] if
// one has no CUDA device or no NCCL of 2.23 or newer, and with [parallel.ErrArgument] if
// they have other versions of NCCL, or two have the same GPU.
func Open(ctx context.Context, dev device.Device, rank, size int,
	exchange func(ctx context.Context, mine []byte) (all [][]byte, err error)) (parallel.Comm, error) {
	if rank < 0 || rank >= size {
		return nil, fmt.Errorf("nccl: %w: rank %d of %d", parallel.ErrArgument, rank, size)
	}
	if size == 1 {
		exchange = func(_ context.Context, mine []byte) ([][]byte, error) { return [][]byte{mine}, nil }
	}
	if exchange == nil {
		return nil, fmt.Errorf("nccl: %w: %d ranks without an exchange", parallel.ErrArgument, size)
	}
	mine, err := json.Marshal(newMember(dev, rank))
	if err != nil {
		return nil, fmt.Errorf("nccl: %w", err)
	}
	all, err := exchange(ctx, mine)
	if err != nil {
		return nil, fmt.Errorf("nccl: rank %d of %d: %w", rank, size, err)
	}
	if len(all) != size {
		return nil, fmt.Errorf("nccl: %w: an exchange between %d ranks for %d", parallel.ErrArgument, len(all), size)
	}
	members := make([]member, size)
	for i, b := range all {
		if err := json.Unmarshal(b, &members[i]); err != nil {
			return nil, fmt.Errorf("nccl: %w: what rank %d sent: %w", parallel.ErrArgument, i, err)
		}
	}
	if err := agree(members); err != nil {
		return nil, err
	}
	return connect(ctx, dev, members[0].ID, rank, size)
}

// Local makes the communicators of ranks that are goroutines of this process, each with
// one of the devices. It fails as [Open] does.
func Local(devices ...device.Device) ([]parallel.Comm, error) {
	if len(devices) == 0 {
		return nil, fmt.Errorf("nccl: %w: a group of no ranks", parallel.ErrArgument)
	}
	var members []member
	for rank, dev := range devices {
		members = append(members, newMember(dev, rank))
	}
	if err := agree(members); err != nil {
		return nil, err
	}
	comms := make([]parallel.Comm, len(devices))
	all, ctx := errgroup.WithContext(context.Background())
	for rank, dev := range devices {
		all.Go(func() (err error) {
			comms[rank], err = connect(ctx, dev, members[0].ID, rank, len(devices))
			return err
		})
	}
	if err := all.Wait(); err != nil {
		for _, c := range comms {
			if c != nil {
				c.Abort(err)
				_ = c.Close()
			}
		}
		return nil, err
	}
	return comms, nil
}

// member is what a rank tells the others of itself.
type member struct {
	Problem string // why it can be none; "" if it can
	Version int    // of NCCL
	GPU     string // which no other has
	Where   string // that is
	ID      []byte // of the group, from rank 0
}

func newMember(dev device.Device, rank int) member {
	info := dev.Info()
	host, err := os.Hostname()
	if err != nil {
		host = "?"
	}
	m := member{GPU: info.UUID, Where: fmt.Sprintf("%s of host %s", info.ID, host)}
	if m.GPU == "" {
		m.GPU = host + " " + info.PCIBusID
	}
	if native, ok := device.As[device.Native](dev); !ok || native.API() != device.CUDA {
		m.Problem = m.Where + " is not a CUDA device"
		return m
	}
	if m.Version, err = library(); err == nil && rank == 0 {
		m.ID = make([]byte, idBytes)
		err = check("ncclGetUniqueId", api.getUniqueID.Call(uintptr(unsafe.Pointer(&m.ID[0]))))
	}
	if err != nil {
		m.Problem = err.Error()
	}
	return m
}

// agree fails where ranks cannot be a group. All ranks come to the same.
func agree(members []member) error {
	holders := map[string]int{}    // of GPUs
	for rank, m := range members { // rank 0 first
		if m.Problem != "" {
			return fmt.Errorf("nccl: rank %d: %w: %s", rank, device.ErrNotSupported, m.Problem)
		}
		if first := members[0]; m.Version != first.Version {
			return fmt.Errorf("nccl: %w: rank 0 has NCCL %s, rank %d has %s; all need the same", parallel.ErrArgument,
				dl.VersionText(first.Version), rank, dl.VersionText(m.Version))
		}
		if other, ok := holders[m.GPU]; ok {
			return fmt.Errorf("nccl: %w: ranks %d and %d have the same GPU, %s; each needs its own", parallel.ErrArgument, other, rank, m.Where)
		}
		holders[m.GPU] = rank
	}
	if n := len(members[0].ID); n != idBytes {
		return fmt.Errorf("nccl: %w: an id of %d bytes, not %d", parallel.ErrArgument, n, idBytes)
	}
	return nil
}

// connect makes the communicator of one rank.
func connect(ctx context.Context, dev device.Device, id []byte, rank, size int) (parallel.Comm, error) {
	c, err := newComm(dev)
	if err != nil {
		return nil, err
	}
	c.rank, c.size = rank, size
	defer context.AfterFunc(ctx, func() { c.fail(context.Cause(ctx)) })()
	err = c.callRoot("ncclCommInitRankScalable", func(uintptr) uintptr {
		return api.initRank.Call(uintptr(unsafe.Pointer(&c.root)), uintptr(size), uintptr(rank), 1,
			uintptr(unsafe.Pointer(&id[0])), uintptr(unsafe.Pointer(newConfig(0, 0))))
	}, func() {})
	if err == nil {
		err = c.openHandle()
	}
	if err != nil {
		c.Abort(err)
		_ = c.Close()
		return nil, fmt.Errorf("nccl: rank %d of %d: %w", rank, size, err)
	}
	return c, nil
}
