// Command segment shares pinned memory with other processes. It creates a
// segment, pins it for a device, and serves its descriptor on a Unix socket to
// whoever connects; with --path the segment is a file that others open by
// name. consumer.py is one of those others.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/all"
	"github.com/pinion-gpu/pinion/pinned/segment"
)

func main() {
	log.SetFlags(0)
	name := flag.String("device", "auto", "device to pin the segment for")
	size := flag.Int64("bytes", 64<<20, "size of the segment, in bytes")
	socket := flag.String("socket", "segment.sock", "Unix socket that serves the segment")
	path := flag.String("path", "", "file for the segment, such as /dev/shm/segment; default: anonymous memory")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, *name, *size, *socket, *path); err != nil {
		log.Fatal(err)
	}
}

// listen makes the socket. One that a killed process left behind, on which
// nobody answers, is replaced.
func listen(socket string) (*net.UnixListener, error) {
	address := &net.UnixAddr{Name: socket, Net: "unix"}
	server, err := net.ListenUnix("unix", address)
	if !errors.Is(err, syscall.EADDRINUSE) {
		return server, err
	}
	conn, dialErr := net.DialUnix("unix", nil, address)
	if dialErr == nil {
		return nil, errors.Join(fmt.Errorf("somebody serves on %s already", socket), conn.Close())
	}
	if !errors.Is(dialErr, syscall.ECONNREFUSED) {
		return nil, err
	}
	if err := os.Remove(socket); err != nil {
		return nil, err
	}
	return net.ListenUnix("unix", address)
}

// run serves a segment until ctx ends.
func run(ctx context.Context, out io.Writer, name string, size int64, socket, path string) (err error) {
	dev, err := device.Open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	seg, err := segment.Create(size, segment.Options{Name: "example", Path: path})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, seg.Close()) }()

	state := "pinned for " + dev.Info().ID
	switch err := seg.Pin(dev, 0); {
	case errors.Is(err, device.ErrPinLimit):
		state = "pageable: " + err.Error() // everything works, only slower
	case err != nil:
		return err
	}
	random := rand.NewChaCha8([32]byte{})
	if _, err := random.Read(seg.Bytes()); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d bytes, generation %016x, crc32 %08x\n%s\n",
		seg.Len(), seg.Generation(), crc32.ChecksumIEEE(seg.Bytes()), state)

	server, err := listen(socket)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	defer server.Close()
	fmt.Fprintf(out, "serving on %s\n", socket)
	for {
		conn, err := server.AcceptUnix()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		// One consumer that goes away must not end the others.
		if err := errors.Join(seg.Send(conn), conn.Close()); err != nil {
			log.Print(err)
		}
	}
}
