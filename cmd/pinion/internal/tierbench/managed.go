package tierbench

import (
	"context"
	"errors"

	"github.com/pinion-gpu/pinion/device"
)

// managed measures managed memory under the budget: what is used is prefetched to the
// device, and what was used least recently goes back to the host, so that no more than
// the budget is on the device. Where managed memory does not migrate, or there is no
// room for all of it, it says why there is nothing to measure.
func (b *bench) managed(_ context.Context, row *Row, uses []int, write bool) (why string, err error) {
	m, has := device.As[device.Manager](b.dev)
	if !has || !m.CanManage() {
		return "the device has no managed memory", nil
	}
	if m.Migration() != device.PageMigration {
		return "managed memory does not move by pages here", nil
	}
	ptr, host, err := m.AllocManaged(int64(row.Arrays)*b.ArrayBytes, device.ManagedOptions{})
	if errors.Is(err, device.ErrOutOfMemory) {
		return err.Error(), nil
	}
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, b.dev.Free(ptr)) }()
	for i := 0; i < len(host); i += 4096 {
		host[i] = byte(i >> 12) // the pages are on the host now
	}
	in, err := b.dev.NewStream()
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, b.dev.Synchronize(), in.Close()) }()
	arrived, err := b.dev.NewEvent(device.EventNoTiming)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, arrived.Close()) }()

	slots := int(b.Budget / b.ArrayBytes)
	var held []int // the newest last
	at := func(i int) device.Ptr { return ptr.Add(int64(i) * b.ArrayBytes) }
	err = b.rounds(row, uses, func(i int) error {
		for k, x := range held {
			if x == i {
				held = append(append(held[:k:k], held[k+1:]...), i)
				return b.touch(at(i), write)
			}
		}
		if len(held) == slots {
			if err := m.Prefetch(b.stream, at(held[0]), b.ArrayBytes, device.OnHost); err != nil {
				return err
			}
			held = held[1:]
			row.Written += b.ArrayBytes
		}
		held = append(held, i)
		row.Filled += b.ArrayBytes
		return errors.Join(m.Prefetch(in, at(i), b.ArrayBytes, device.OnDevice), in.Record(arrived), b.stream.Wait(arrived),
			b.touch(at(i), write))
	}, func() { row.Filled, row.Written = 0, 0 }, func() {})
	return "", err
}
