package harness_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/bench/internal/harness"
	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/all"
	"github.com/pinion-gpu/pinion/internal/measure"
)

// TestRun: the keys of a document come in the order that readers are used to,
// and those that a program does not have are left out.
func TestRun(t *testing.T) {
	type document struct {
		harness.Head
		Rows         []measure.Row          `json:"rows"`
		NotAvailable []harness.NotAvailable `json:"not_available"`
	}
	var out bytes.Buffer
	err := harness.Run("host", &out, func(dev device.Device) (any, error) {
		return document{
			Head: harness.NewHead(dev, "tests", 3),
			Rows: []measure.Row{
				{Name: "a", Value: 2, Unit: "ms", Min: 1, Max: 3},
				{Name: "b", By: "me", Unit: "ms"},
			},
			NotAvailable: []harness.NotAvailable{{Name: "c", By: "me", Reason: "why"}, {Name: "d", Reason: "why"}},
		}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := "peer what measured_at version commit platform cpu cpus device device_name repeats" +
		" rows name value unit min max name by value unit min max" +
		" not_available name by reason name reason"
	if got := strings.Join(keys(out.String()), " "); got != want {
		t.Errorf("keys %s, want %s", got, want)
	}
	var d document
	if err := json.Unmarshal(out.Bytes(), &d); err != nil {
		t.Fatal(err)
	}
	if d.Peer != "Pinion" || d.What != "tests" || d.DeviceName == "" || d.Commit == "" || d.Repeats != 3 {
		t.Errorf("%+v", d.Head)
	}
}

// keys are those of an indented document, in their order.
func keys(text string) (found []string) {
	for line := range strings.Lines(text) {
		if key, _, ok := strings.Cut(strings.TrimSpace(line), `": `); ok {
			found = append(found, strings.TrimPrefix(key, `"`))
		}
	}
	return found
}

func TestRunFails(t *testing.T) {
	var out bytes.Buffer
	broken := errors.New("broken")
	err := harness.Run("host", &out, func(device.Device) (any, error) { return "half", broken })
	if !errors.Is(err, broken) || out.Len() > 0 {
		t.Errorf("%v, printed %q", err, &out)
	}
	err = harness.Run("none:0", &out, func(device.Device) (any, error) {
		t.Error("measured without a device")
		return nil, nil
	})
	if err == nil || out.Len() > 0 {
		t.Errorf("%v, printed %q", err, &out)
	}
}

// TestMemory: Close gives back everything, the latest first, also after errors.
func TestMemory(t *testing.T) {
	dev, err := device.Open("host:1MiB")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	const most = 600 << 10 // fits once
	for range 2 {
		m, err := harness.NewMemory(dev)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Alloc(most); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Alloc(most); !errors.Is(err, device.ErrOutOfMemory) {
			t.Errorf("%v, want %v", err, device.ErrOutOfMemory)
		}
		first, second := errors.New("first"), errors.New("second")
		var order []string
		m.Later(func() error { order = append(order, "first"); return first })
		m.Later(func() error { order = append(order, "second"); return second })
		if err := m.Close(); !errors.Is(err, first) || !errors.Is(err, second) {
			t.Errorf("%v, want both errors", err)
		}
		if !slices.Equal(order, []string{"second", "first"}) {
			t.Errorf("given back in the order %v", order)
		}
		if err := m.Stream.Synchronize(); !errors.Is(err, device.ErrClosed) {
			t.Errorf("the stream is left: %v", err)
		}
	}
}

// TestResident: memory that is in use is counted.
func TestResident(t *testing.T) {
	before, _, err := harness.Resident()
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	held := bytes.Repeat([]byte{1}, 64<<20)
	now, peak, err := harness.Resident()
	if err != nil || now < before+int64(len(held))/2 || peak < now {
		t.Errorf("%d bytes, then %d and at most %d with %d more; %v", before, now, peak, len(held), err)
	}
	if heap := harness.HeapBytes(); heap < int64(len(held)) {
		t.Errorf("a heap of %d bytes holds %d", heap, len(held))
	}
	runtime.KeepAlive(held)
}

func TestImpossible(t *testing.T) {
	for _, lack := range []error{device.ErrNotSupported, device.ErrPinLimit, device.ErrOutOfMemory, errors.ErrUnsupported} {
		if !harness.Impossible(fmt.Errorf("allocate: %w", lack)) {
			t.Errorf("%v is no lack", lack)
		}
	}
	for _, err := range []error{nil, errors.New("wrong bytes"), device.ErrClosed} {
		if harness.Impossible(err) {
			t.Errorf("%v is a lack", err)
		}
	}
}
