//go:build linux

package segment_test

import (
	"fmt"
	"log"
	"net"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/pinned/segment"
)

// Two sides of a Unix socket share a segment. They would be two processes;
// here they are one.
func ExampleSegment() {
	server, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix"}) // a name of its own
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	done := make(chan error, 1)
	go func() { done <- consume(server.Addr().(*net.UnixAddr)) }()

	seg, err := segment.Create(1<<20, segment.Options{Name: "example"})
	if err != nil {
		log.Fatal(err)
	}
	defer seg.Close()
	copy(seg.Bytes(), "shared, not copied")
	conn, err := server.AcceptUnix()
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	if err := seg.Send(conn); err != nil {
		log.Fatal(err)
	}
	if err := <-done; err != nil {
		log.Fatal(err)
	}
	// Output: shared, not copied
}

func consume(addr *net.UnixAddr) error {
	conn, err := net.DialUnix("unix", nil, addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	seg, err := segment.Receive(conn)
	if err != nil {
		return err
	}
	defer seg.Close()
	dev, err := device.Open("host")
	if err != nil {
		return err
	}
	defer dev.Close()
	if err := seg.Pin(dev, 0); err != nil {
		log.Print(err) // copies are those of pageable memory then
	}
	stream, err := dev.NewStream()
	if err != nil {
		return err
	}
	p, err := dev.Alloc(18)
	if err != nil {
		return err
	}
	b := make([]byte, 18)
	if err := stream.CopyH2D(p, seg.Bytes()[:18]); err != nil {
		return err
	}
	if err := stream.CopyD2H(b, p); err != nil {
		return err
	}
	if err := stream.Synchronize(); err != nil {
		return err
	}
	fmt.Printf("%s\n", b)
	return nil
}
