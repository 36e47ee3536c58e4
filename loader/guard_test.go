package loader_test

import (
	"sync"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/loader"
)

// Close waits for reads that are within their time limit: the dataset is in use.
func TestCloseWithinTheTimeLimit(t *testing.T) {
	dev := devicetest.Open(t)
	ds := table(20, dtype.U8, 100)
	gate, reading := make(chan struct{}), make(chan struct{})
	var once sync.Once
	ds.before = func(int) { once.Do(func() { close(reading) }); <-gate }
	ld, err := loader.New(dev, ds, loader.Options{Batch: 2, Workers: 3, SampleTimeout: time.Hour})
	testkit.OK(t, err)
	<-reading
	done := make(chan error, 1)
	go func() { done <- ld.Close() }()
	select {
	case <-done:
		t.Error("Close returned while workers read within their time limit")
	case <-time.After(5 * time.Millisecond):
	}
	close(gate)
	time.Sleep(10 * time.Millisecond)
	_ = ld.Close()
	if n := ds.readers.Load(); n != 0 {
		t.Errorf("%d readers are still open", n)
	}
}

// Readers behind a time limit are closed when Close returns.
func TestCloseClosesGuardedReaders(t *testing.T) {
	dev := devicetest.Open(t)
	for range 200 {
		ds := table(20, dtype.U8, 100)
		ld, err := loader.New(dev, ds, loader.Options{Batch: 2, Workers: 3, SampleTimeout: time.Hour})
		testkit.OK(t, err)
		_, err = drain(t, dev, ld)
		testkit.OK(t, err)
		testkit.OK(t, ld.Close())
		if n := ds.readers.Load(); n != 0 {
			t.Fatalf("%d readers are still open after Close", n)
		}
	}
}
