package dashboard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/cli"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		text   string
		public bool
		want   string // empty: an error
		says   string
	}{
		{":0", false, "127.0.0.1:0", ""},
		{"8080", false, "127.0.0.1:8080", ""},
		{":08080", false, "127.0.0.1:8080", ""},
		{"127.0.0.1:8080", false, "127.0.0.1:8080", ""},
		{"127.9.9.9:1", false, "127.9.9.9:1", ""},
		{"[::1]:8080", false, "[::1]:8080", ""},
		{"0.0.0.0:8080", false, "", "--http-public"},
		{"[::]:8080", false, "", "--http-public"},
		{"192.0.2.1:8080", false, "", "--http-public"},
		{"0.0.0.0:8080", true, "0.0.0.0:8080", ""},
		{":8080", true, ":8080", ""},
		{"192.0.2.1:8080", true, "192.0.2.1:8080", ""},
		{"", false, "", "must be a port"},
		{":", false, "", "must be a port"},
		{"x", false, "", "must be a port"},
		{":http", false, "", "must be a port"},
		{":65536", false, "", "must be a port"},
		{":-1", true, "", "must be a port"},
		{"::1:8080", false, "", "must be a port"},
		{"1:2:3", true, "", "must be a port"},
		{"no.such.host.invalid:80", false, "", "no host of that name"},
	} {
		got, err := parse(context.Background(), c.text, c.public)
		if got != c.want || (err == nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q, public %v: %q, %v; want %q, %s", c.text, c.public, got, err, c.want, c.says)
		}
	}
}

// run runs a command with those flags, whose work is do.
func run(do func(stderr string) error, args ...string) error {
	var text bytes.Buffer
	cmd := &cobra.Command{Use: "work", SilenceErrors: true, SilenceUsage: true}
	cmd.RunE = func(*cobra.Command, []string) error { return do(text.String()) }
	Serving(cmd)
	cmd.SetErr(&text)
	cmd.SetOut(io.Discard)
	cmd.SetArgs(args)
	return cmd.ExecuteContext(context.Background())
}

// While the command works its dashboard is there, and not afterwards.
func TestServing(t *testing.T) {
	var at string
	err := run(func(stderr string) error {
		at = strings.TrimSpace(strings.TrimPrefix(stderr, "Dashboard: "))
		r, err := http.Get(at)
		if err != nil {
			return err
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		if !strings.Contains(string(text), "<title>") {
			return fmt.Errorf("%s: %s", r.Status, text)
		}
		// Somebody who watches does not keep the command from ending.
		watch, err := http.Get(at + "api/events")
		if err != nil {
			return err
		}
		t.Cleanup(func() { watch.Body.Close() })
		return nil
	}, "--http", ":0")
	testkit.OK(t, err)
	if _, err := http.Get(at); err == nil {
		t.Errorf("%s is still there", at)
	}
}

// What is wrong with the address is said before the command does anything.
func TestRefused(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.OK(t, err)
	defer taken.Close()
	for _, c := range []struct {
		args  []string
		usage bool
		says  string
	}{
		{[]string{"--http", taken.Addr().String()}, false, "--http :0 takes a free port"},
		{[]string{"--http", "0.0.0.0:0"}, true, "--http-public allows it"},
		{[]string{"--http", "nonsense"}, true, "must be a port"},
		{[]string{"--http="}, true, "must be a port"},
		{[]string{"--http-public"}, true, "--http-public needs --http"},
	} {
		err := run(func(string) error { return errors.New("it began") }, c.args...)
		var usage *cli.UsageError
		if err == nil || !strings.Contains(err.Error(), c.says) || errors.As(err, &usage) != c.usage {
			t.Errorf("%q: %v, want %q, usage error %v", c.args, err, c.says, c.usage)
		}
	}
	// Another port would not help where no interface has the address.
	err = run(func(string) error { return errors.New("it began") }, "--http", "192.0.2.1:0", "--http-public")
	if err == nil || !strings.Contains(err.Error(), "cannot be served") || strings.Contains(err.Error(), "free port") {
		t.Error("an address of elsewhere:", err)
	}
	if err := run(func(stderr string) error { return errors.New("it began" + stderr) }); err == nil || err.Error() != "it began" {
		t.Error("without the flag:", err)
	}
}
