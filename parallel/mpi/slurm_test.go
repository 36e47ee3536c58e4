//go:build linux

package mpi

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

// deaf names a daemon that never ends by itself.
const deaf = "PINION_MPI_DEAF"

func init() { programs["daemon"] = runDaemon }

// testdata/slurm.sh ends daemons that were not waiting for a connection when told to end,
// and kills those that do not end.
func TestSlurmEnds(t *testing.T) {
	self, err := os.Executable()
	testkit.OK(t, err)
	dir := t.TempDir()
	for _, name := range []string{"munged", "slurmctld", "slurmd", "sinfo"} {
		testkit.OK(t, os.Symlink(self, filepath.Join(dir, name)))
	}
	for _, name := range []string{"", "slurmd"} {
		t.Run("deaf="+name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			cmd := exec.CommandContext(ctx, "testdata/slurm.sh", "true")
			cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), program+"=daemon", deaf+"="+name,
				"GORACE=atexit_sleep_ms=0") // the daemons end soon
			out, err := cmd.CombinedOutput()
			const killed = "has not ended for 3 seconds: slurmd -D"
			if err != nil || strings.Contains(string(out), killed) != (name != "") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// runDaemon is the program of Slurm that this process is called. Its daemons look whether
// they are to end after each connection, and not while they wait for one.
func runDaemon() error {
	time.AfterFunc(time.Minute, func() { os.Exit(1) }) // a script that fails leaves it
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM)
	name := filepath.Base(os.Args[0])
	if name == "munged" {
		for _, arg := range os.Args {
			if path, ok := strings.CutPrefix(arg, "--socket="); ok {
				l, err := net.Listen("unix", path)
				if err != nil {
					return err
				}
				defer l.Close()
			}
		}
		<-told
		return nil
	}
	conf, err := os.ReadFile(os.Getenv("SLURM_CONF"))
	if err != nil {
		return err
	}
	addr := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^(Slurm.*)Port=(\d+)$`).FindAllStringSubmatch(string(conf), -1) {
		addr[strings.ToLower(m[1])] = "127.0.0.1:" + m[2]
	}
	if name == "sinfo" { // both are there
		for _, a := range addr {
			c, err := net.Dial("tcp", a)
			if err != nil {
				return err
			}
			c.Close()
		}
		host, err := os.Hostname()
		host, _, _ = strings.Cut(host, ".")
		fmt.Println(host)
		return err
	}
	l, err := net.Listen("tcp", addr[name])
	if err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		c.Close()
		if name == os.Getenv(deaf) {
			continue
		}
		select {
		case <-told:
			return nil
		default:
		}
	}
}
