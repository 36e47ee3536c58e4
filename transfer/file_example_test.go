package transfer_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/all"
	"github.com/pinion-gpu/pinion/transfer"
)

// A checkpoint goes from the device to a file and a part of it back.
func ExampleEngine_ReadFile() {
	dev, err := device.Open("host")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	engine, err := transfer.New(dev, transfer.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	dir, err := os.MkdirTemp("", "example-*")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	ctx := context.Background()
	weights := []byte("layer one, layer two")
	p, err := dev.Alloc(int64(len(weights)))
	if err != nil {
		log.Fatal(err)
	}
	if err := engine.H2D(ctx, p, weights); err != nil {
		log.Fatal(err)
	}
	path := filepath.Join(dir, "checkpoint")
	if _, err := engine.CreateFile(ctx, path, transfer.FileCopy{Device: p, Bytes: int64(len(weights)), Sync: true}); err != nil {
		log.Fatal(err)
	}

	file, err := os.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	report, err := engine.ReadFile(ctx, transfer.FileCopy{File: file, Offset: 11, Device: p, Bytes: 9})
	if err != nil {
		log.Fatal(err)
	}
	got := make([]byte, 9)
	if err := engine.D2H(ctx, got, p); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %d bytes\n", got, report.CachedBytes+report.DirectBytes+report.MappedBytes)
	// Output: layer two: 9 bytes
}
