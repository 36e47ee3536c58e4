package calibrate_test

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

type full = transfertest.Full

var ctx = context.Background()
