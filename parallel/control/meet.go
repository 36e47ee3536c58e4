package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/pinion-gpu/pinion/parallel/launch"
)

// ports is how many are tried, from Master's on: another program may hold it.
const ports = 16

// Listener is where rank 0 of a run can be met whose launcher does not say so: it
// listens before it joins, and tells the others by means of their own, such as MPI.
type Listener struct {
	listener net.Listener
	address  string
}

// Listen listens at a port that the system chooses, on all interfaces. [Join] takes the
// listener over; until then, Close ends it.
func Listen(ctx context.Context) (*Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", ":0")
	if err != nil {
		return nil, fmt.Errorf("control: %w", err)
	}
	return &Listener{l, strings.Join(addresses(l.Addr().(*net.TCPAddr).Port), ",")}, nil
}

// Addr is what the other ranks need as World.Master: host:port, by name and by each of
// the addresses of this host, with commas between them.
func (l *Listener) Addr() string { return l.address }

// Close ends a listener that was not passed to [Join].
func (l *Listener) Close() error { return l.listener.Close() }

// addresses are those of this host with a port.
func addresses(port int) []string {
	var list, loopback []string
	add := func(to *[]string, host string) { *to = append(*to, net.JoinHostPort(host, strconv.Itoa(port))) }
	if name, err := os.Hostname(); err == nil {
		add(&list, name)
	}
	found, _ := net.InterfaceAddrs()
	for _, a := range found {
		ip, ok := a.(*net.IPNet)
		switch {
		case !ok || ip.IP.IsLinkLocalUnicast():
		case ip.IP.IsLoopback():
			add(&loopback, ip.IP.String())
		case len(list) < 8:
			add(&list, ip.IP.String())
		}
	}
	if len(list) < 2 {
		list = append(list, loopback...) // a host without a network
	}
	return list
}

// candidates are the addresses at which rank 0 may be.
func candidates(w launch.World) ([]string, error) {
	if strings.Contains(w.Master, ",") {
		return strings.Split(w.Master, ","), nil
	}
	host, text, err := net.SplitHostPort(w.Master)
	first, bad := strconv.ParseUint(text, 10, 16)
	if err != nil || bad != nil || first == 0 {
		return nil, fmt.Errorf("%w: World.Master is %q: not host:port", ErrArgument, w.Master)
	}
	var list []string
	for i := range uint64(ports) {
		if i == 0 && w.Shared { // another program listens there: it shall not be disturbed
			continue
		}
		if first+i < 1<<16 {
			list = append(list, net.JoinHostPort(host, strconv.FormatUint(first+i, 10)))
		}
	}
	return list, nil
}

// listenAt listens where rank 0 is expected.
func listenAt(ctx context.Context, w launch.World) (net.Listener, error) {
	list, err := candidates(w)
	if err != nil {
		return nil, err
	}
	var failures []error
	for _, host := range append(ownAddress(ctx, w.Master), "") {
		for _, address := range list {
			_, port, _ := net.SplitHostPort(address)
			l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(host, port))
			if err == nil {
				return l, nil
			}
			failures = append(failures, err)
		}
	}
	return nil, fmt.Errorf("none of %d ports can be listened at, from %s on: %w", len(list), list[0], failures[0])
}

// ownAddress is the one that Master means, if there is only one. The name of a host may
// mean a loopback address on that host alone.
func ownAddress(ctx context.Context, master string) []string {
	host, _, _ := net.SplitHostPort(master)
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	_, noName := netip.ParseAddr(host)
	switch {
	case err != nil || len(found) == 0:
	case host == "localhost", len(found) == 1 && (noName == nil || !found[0].IsLoopback()):
		return []string{found[0].Unmap().String()}
	}
	return nil
}

// find looks for rank 0 until ctx ends.
func find(ctx context.Context, w launch.World, own greeting) (*link, greeting, error) {
	list, err := candidates(w)
	if err != nil {
		return nil, greeting{}, err
	}
	limit, pause := time.Second, 20*time.Millisecond
	var last error
	for {
		for _, address := range list {
			l, theirs, err := call(ctx, address, limit, own)
			var final *RankError
			if err == nil || errors.As(err, &final) {
				return l, theirs, err
			}
			if last == nil || ctx.Err() == nil && tells(err) >= tells(last) {
				last = err
			}
			if ctx.Err() != nil {
				break
			}
		}
		select {
		case <-ctx.Done():
			return nil, greeting{}, fmt.Errorf("no answer of rank 0 at %s: %w", place(list), last)
		case <-time.After(pause):
		}
		limit, pause = min(2*limit, slowest), min(2*pause, time.Second)
	}
}

// tells is how much an error says of rank 0: an answer more than a refusal, and that more
// than nothing in time, which may be the end of waiting.
func tells(err error) int {
	var e net.Error
	switch {
	case !errors.As(err, &e):
		return 2
	case !e.Timeout():
		return 1
	}
	return 0
}

// place names the candidates.
func place(list []string) string {
	if len(list) == 1 {
		return list[0]
	}
	return fmt.Sprintf("%s and %d more", list[0], len(list)-1)
}
