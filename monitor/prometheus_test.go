package monitor_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/monitor"
	"github.com/pinion-gpu/pinion/transfer"
	"github.com/pinion-gpu/pinion/vram"
)

// program finds a program, or skips the test.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%v: Debian's package prometheus has it", err)
	}
	return path
}

// A real Prometheus scrapes a server with the metrics and answers queries about them
// with what was done.
func TestPrometheus(t *testing.T) {
	prometheus := program(t, "prometheus")
	dev := devicetest.Open(t)
	id := dev.Info().ID
	pool, err := vram.New(dev, vram.Options{Budget: 64 << 20})
	testkit.OK(t, err)
	defer pool.Close()
	b, err := pool.Alloc(ctx, 12_345, vram.Use{Purpose: vram.KVCache})
	testkit.OK(t, err)
	defer b.Free()
	engine, err := transfer.New(dev, transfer.Options{})
	testkit.OK(t, err)
	defer engine.Close()
	before := int64(0)
	for _, w := range transferOf(monitor.Take(), id).Traffic {
		if w.Direction == "h2d" {
			before += w.Bytes
		}
	}
	testkit.OK(t, engine.H2D(ctx, b.Ptr(), make([]byte, 4321)))

	mux := http.NewServeMux()
	mux.Handle("/metrics", monitor.MetricsHandler())
	server := httptest.NewServer(mux)
	defer server.Close()
	dir := t.TempDir()
	config := fmt.Sprintf("scrape_configs: [{job_name: pinion, scrape_interval: 1s, scrape_timeout: 1s, static_configs: [{targets: ['%s']}]}]\n",
		strings.TrimPrefix(server.URL, "http://"))
	testkit.WriteFile(t, config, dir, "prometheus.yml")

	// Somebody else may take the port before Prometheus does.
	var base string
	var log bytes.Buffer
	for try := 0; base == ""; try++ {
		if try == 5 {
			t.Fatalf("Prometheus does not start:\n%s", log.String())
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		testkit.OK(t, err)
		address := l.Addr().String()
		testkit.OK(t, l.Close())
		log.Reset()
		cmd := exec.Command(prometheus, "--config.file="+filepath.Join(dir, "prometheus.yml"),
			"--storage.tsdb.path="+filepath.Join(dir, fmt.Sprint("data", try)), "--web.listen-address="+address)
		cmd.Stdout, cmd.Stderr = &log, &log
		testkit.OK(t, cmd.Start())
		ended := make(chan struct{})
		go func() { _ = cmd.Wait(); close(ended) }()
		ready := false
		testkit.Eventually(t, "Prometheus is ready or has ended", func() bool {
			select {
			case <-ended:
				return true
			default:
			}
			r, err := http.Get("http://" + address + "/-/ready")
			if err != nil {
				return false
			}
			r.Body.Close()
			ready = r.StatusCode == http.StatusOK
			return ready
		})
		if ready {
			base = "http://" + address
			defer func() { _ = cmd.Process.Kill(); <-ended }()
		}
	}

	for _, q := range []struct{ query, want string }{
		{`pinion_vram_purpose_requested_bytes{purpose="kvcache",device="` + id + `"}`, "12345"},
		{`sum(pinion_transfer_bytes_total{direction="h2d",device="` + id + `"})`, fmt.Sprint(before + 4321)},
		{`count(pinion_build_info)`, "1"},
		{`up{job="pinion"}`, "1"},
	} {
		// A scrape may be late on a busy machine; then the next one tells.
		testkit.Eventually(t, q.query+" is "+q.want, func() bool {
			r, err := http.Get(base + "/api/v1/query?query=" + url.QueryEscape(q.query))
			if err != nil {
				return false
			}
			defer r.Body.Close()
			var answer struct {
				Data struct {
					Result []struct {
						Value [2]any `json:"value"`
					} `json:"result"`
				} `json:"data"`
			}
			if err := json.NewDecoder(r.Body).Decode(&answer); err != nil || len(answer.Data.Result) != 1 {
				return false
			}
			return fmt.Sprint(answer.Data.Result[0].Value[1]) == q.want
		})
	}
}

// promtool finds nothing wrong with the metrics, its conventions for names included.
func TestPromtool(t *testing.T) {
	promtool := program(t, "promtool")
	s := monitor.Snapshot{
		VRAM: []monitor.VRAM{{Purposes: make([]monitor.Purpose, 1)}}, Pinned: make([]monitor.Pinned, 1),
		Transfer: []monitor.Transfer{{Device: "a\"\\\nb", Traffic: make([]monitor.Traffic, 1)}},
		Tier:     []monitor.Tier{{Levels: make([]monitor.Level, 1)}}, Loader: []monitor.Loader{{Stages: make([]monitor.Stage, 1)}},
	}
	var text bytes.Buffer
	testkit.OK(t, s.WriteMetrics(&text))
	cmd := exec.Command(promtool, "check", "metrics")
	cmd.Stdin = &text
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}
