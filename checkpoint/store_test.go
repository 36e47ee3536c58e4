package checkpoint

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/safetensors"
	"github.com/pinion-gpu/pinion/tier"
)

// Layers come through a store that holds a part of them on the device.
func TestLoadStore(t *testing.T) {
	testkit.NoLeaks(t)
	r := rand.New(rand.NewPCG(8, 8))
	f := open(t, 1)
	m := write(t, 100_000, append(some(r, 60), tensor("none.weight", safetensors.F32, 0))...)
	stream := testkit.Must(f.dev.NewStream())(t)
	defer stream.Close()
	store := testkit.Must(tier.New(f.dev, tier.Options{DeviceBytes: 4 << 20, HostBytes: 64 << 20}))(t)
	defer func() { testkit.OK(t, store.Close()) }()
	last := int64(0)
	layers, err := LoadStore(t.Context(), m.ck, StoreOptions{Progress: func(done, total int64) { last = done }}, store)
	testkit.OK(t, err)
	if last != m.ck.Bytes() {
		t.Errorf("%d bytes of progress, want %d", last, m.ck.Bytes())
	}
	seen := 0
	var steps []tier.Step
	for _, l := range layers {
		if l.Array == nil {
			seen += len(l.Tensors(nil))
			continue
		}
		lease := testkit.Must(store.Use(t.Context(), stream, tier.Read(l.Array)))(t)
		testkit.OK(t, stream.Synchronize())
		for _, x := range l.Tensors(lease) {
			f.check(m, x, 0)
			seen++
		}
		testkit.OK(t, lease.Release())
		steps = append(steps, tier.Step{Name: l.Name, Use: []tier.Access{tier.Read(l.Array)}, Run: func(device.Stream, *tier.Lease) error { return nil }})
	}
	if seen != 61 {
		t.Errorf("%d tensors", seen)
	}
	order := testkit.Must(store.NewStream(steps...))(t)
	testkit.Must(order.Run(t.Context(), stream, 2))(t)
	testkit.OK(t, order.Close())
	for _, l := range layers {
		if l.Array != nil {
			testkit.OK(t, l.Array.Free())
		}
	}

	part := testkit.Must(LoadStore(t.Context(), m.ck, StoreOptions{Keep: func(name string) bool { return strings.HasPrefix(name, "model.layers.3.") }}, store))(t)
	if len(part) != 1 || part[0].Name != "model.layers.3" || len(part[0].pieces) != 4 {
		t.Errorf("%d layers, %+v", len(part), part[0])
	}
	testkit.OK(t, part[0].Array.Free())

	// After an error nothing is left in the store.
	ended, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err = LoadStore(ended, m.ck, StoreOptions{Progress: func(int64, int64) { cancel() }}, store)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want the context's error", err)
	}
	if runtime.GOOS != "windows" { // which does not cut a file that is open
		testkit.OK(t, os.Truncate(m.ck.Files()[0].Path(), 5000))
		_, err = LoadStore(t.Context(), m.ck, StoreOptions{}, store)
		testkit.WantError(t, "shrunk", err, io.ErrUnexpectedEOF, m.ck.Files()[0].Path())
	}
	_, err = LoadStore(t.Context(), m.ck, StoreOptions{Layers: []Layer{{Name: "x", Tensors: []safetensors.Tensor{tensor("x", safetensors.F32, 4)}}}}, store)
	testkit.WantError(t, "no file", err, ErrArgument, "is in no file")
	small := testkit.Must(tier.New(f.dev, tier.Options{DeviceBytes: 1 << 20, HostBytes: 1 << 20}))(t)
	defer func() { testkit.OK(t, small.Close()) }()
	large := write(t, 0, tensor("a.weight", safetensors.F32, 1<<18), tensor("b.weight", safetensors.F32, 1<<18), tensor("c.weight", safetensors.F32, 1<<18))
	_, err = LoadStore(t.Context(), large.ck, StoreOptions{}, small)
	testkit.WantError(t, "too large", err, tier.ErrNoRoom, "3 layers with 3 MiB in all do not fit", `"b" needs 1 MiB`)
	for name, s := range map[string]*tier.Store{"after errors": store, "without room": small} {
		if stats := s.Stats(); stats.Arrays != 0 {
			t.Errorf("%s: %d arrays are left", name, stats.Arrays)
		}
	}
}
