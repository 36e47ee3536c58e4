// Package dashboard gives commands --http: while they run they serve the dashboard
// of package monitor.
//
//	root.AddCommand(dashboard.Serving(newFeed()))
package dashboard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/cli"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/flags"
	"github.com/pinion-gpu/pinion/monitor"
	"github.com/pinion-gpu/pinion/timeline"
)

// recorded are the commands whose last seconds are recorded for the dashboard. The
// others measure or train, and a recording has its cost.
var recorded = []string{"feed", "load", "pack"}

// Serving gives cmd, and its commands, --http and --http-public. The address is taken
// before the command begins its work. The dashboard shows the last seconds of a
// recording: that of --trace, or one of its own where a command is in recorded.
func Serving(cmd *cobra.Command) *cobra.Command {
	for _, c := range cmd.Commands() {
		Serving(c)
	}
	run := cmd.RunE
	if run == nil || cmd.Hidden {
		return cmd
	}
	var address string
	var public bool
	add := func() {
		cmd.Flags().StringVar(&address, "http", "", "serve a dashboard of the run at `ADDRESS`: a port of this machine, such as :8080 (:0 takes a free one)")
		cmd.Flags().BoolVar(&public, "http-public", false, "allow --http an address that other machines reach")
	}
	if grouped(cmd.Flags()) {
		flags.Group(cmd.Flags(), "Watch", add)
	} else {
		add()
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !cmd.Flags().Changed("http") {
			if public {
				return cli.BadUsage(cmd, "--http-public needs --http")
			}
			return run(cmd, args)
		}
		at, err := parse(cmd.Context(), address, public)
		if err != nil {
			return cli.BadUsage(cmd, "--http is %q, but %w", address, err)
		}
		stop, err := serve(cmd, at)
		if err != nil {
			return err
		}
		defer stop()
		if trace := cmd.Flags().Lookup("trace"); slices.Contains(recorded, cmd.Name()) && (trace == nil || !trace.Changed) {
			if r, err := timeline.Start(timeline.Options{Records: 1 << 16}); err == nil { // else there is one
				defer r.Stop()
			}
		}
		return run(cmd, args)
	}
	return cmd
}

// grouped reports whether a command shows its flags in groups.
func grouped(set *pflag.FlagSet) (is bool) {
	set.VisitAll(func(f *pflag.Flag) { is = is || len(f.Annotations) > 0 })
	return is
}

// parse makes an address to listen on of a port, or of a host and a port. Without a
// host it is the loopback address, or all if the public may reach it.
func parse(ctx context.Context, text string, public bool) (string, error) {
	form := errors.New("must be a port such as 8080, or an address such as 127.0.0.1:8080")
	if !strings.Contains(text, ":") {
		text = ":" + text
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return "", form
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", form
	} else {
		port = strconv.FormatUint(n, 10)
	}
	if host == "" && !public {
		host = "127.0.0.1"
	}
	if public {
		return net.JoinHostPort(host, port), nil
	}
	ips := []net.IP{net.ParseIP(host)}
	if ips[0] == nil {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		if ips, err = net.DefaultResolver.LookupIP(ctx, "ip", host); err != nil || len(ips) == 0 {
			return "", fmt.Errorf("there is no host of that name; it %s", form)
		}
	}
	for _, ip := range ips {
		if !ip.IsLoopback() {
			return "", fmt.Errorf("other machines reach that address, and whoever does sees sizes, times, names and call stacks of this run: --http-public allows it")
		}
	}
	return net.JoinHostPort(ips[0].String(), port), nil
}

// serve serves the dashboard until stop is called.
func serve(cmd *cobra.Command, at string) (stop func(), err error) {
	listener, err := new(net.ListenConfig).Listen(cmd.Context(), "tcp", at)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("the dashboard cannot be served: %w; --http :0 takes a free port", err)
	}
	if err != nil {
		return nil, fmt.Errorf("the dashboard cannot be served: %w", err)
	}
	server := &http.Server{
		Handler:           monitor.Handler(),
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          log.New(io.Discard, "", 0), // of clients, which are not this run's matter
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // until it is shut down
	}()
	cli.NewProgress(cmd).Message("Dashboard: %s", url(listener.Addr().(*net.TCPAddr)))
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			server.Close()
		}
		<-done
	}, nil
}

// url is where the dashboard is.
func url(at *net.TCPAddr) string {
	if at.IP.IsUnspecified() {
		return fmt.Sprintf("http://localhost:%d/, and at all addresses of this machine", at.Port)
	}
	return "http://" + at.String() + "/"
}
