package pipeline_test

import (
	"context"
	"testing"

	"github.com/pinion-gpu/pinion/transfer/internal/transfertest"
)

func TestMain(m *testing.M) { transfertest.Main(m) }

// fixture is one test with its device.
type fixture struct{ *transfertest.Fixture }

func open(t testing.TB) *fixture {
	t.Helper()
	return &fixture{transfertest.Open(t)}
}

var (
	ctx   = context.Background()
	small = transfertest.Small
)

var (
	async  = transfertest.Async
	unique = transfertest.Unique
)

const (
	before  = 0x11 // what the destination holds before a run
	scribed = 0x33 // what the caller writes over its memory after a run
)

func fill(b []byte, value byte) {
	for i := range b {
		b[i] = value
	}
}
