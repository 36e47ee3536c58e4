package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/doctor"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// findings runs the command in a process of its own, and reads its document. Where
// nothing hangs on purpose, a probe that is out of time is tried again: the machine is
// busy.
func findings(t *testing.T, args ...string) (r result, list map[string]doctor.Finding) {
	t.Helper()
	for range 5 {
		r = process(t, nil, append([]string{"doctor", "--json", "--path", t.TempDir()}, args...)...)
		if os.Getenv("FAKENVML_HANG") != "" || !strings.Contains(r.stdout, "no answer within") && !strings.Contains(r.stdout, "no time was left") {
			break
		}
	}
	var doc doctor.Report
	if err := json.Unmarshal([]byte(r.stdout), &doc); err != nil {
		t.Fatalf("%v\n%s%s", err, r.stdout, r.stderr)
	}
	list = map[string]doctor.Finding{}
	for _, f := range doc.Checks {
		list[f.Name] = f
	}
	if failed := doc.Failed(); failed != (r.code == exitFailed) || !failed && r.code != exitDone {
		t.Errorf("exit code %d, and something failed: %v", r.code, failed)
	}
	return r, list
}

// On the host every check ends, and those of a GPU say why they do not run.
func TestDoctorHost(t *testing.T) {
	_, list := findings(t, "--device", "host:256MiB")
	if len(list) != len(doctor.Checks()) {
		t.Errorf("%d findings", len(list))
	}
	for _, name := range []string{"link-width", "pinned-copies", "gpu-memory"} {
		if f := list[name]; f.Status != doctor.Skipped || !strings.Contains(f.Reason, "GPU") {
			t.Errorf("%s: %+v", name, f)
		}
	}
	if f := list["copy-threads"]; f.Measured == "" {
		t.Errorf("%+v", f)
	}
}

// fakeGPU sets stand-ins for the driver and for NVML.
func fakeGPU(t *testing.T) {
	t.Helper()
	cuda, err := filepath.Glob("../../device/cuda/testdata/fakecuda/*.c")
	testkit.OK(t, err)
	t.Setenv("PINION_LIB_CUDA", testkit.Library(t, "libfakecuda.so", cuda...))
	t.Setenv("PINION_LIB_NVML", testkit.Library(t, "libfakenvml.so", "../../internal/nvml/testdata/fakenvml/fakenvml.c"))
}

// What a GPU says reaches the checks: settings of the stand-ins, and the finding.
func TestDoctorGPU(t *testing.T) {
	fakeGPU(t)
	for name, c := range map[string]struct {
		check  string
		set    string // NAME=VALUE
		status doctor.Status
		says   string // in what was measured, or the reason
	}{
		"lanes":        {"link-width", "FAKENVML_WIDTH=8", doctor.Warn, "8 of 16"},
		"generation":   {"link-generation", "FAKENVML_GEN=3", doctor.Warn, "3 of 5"},
		"heat":         {"throttling", "FAKENVML_REASONS=0x40", doctor.Fail, "heat"},
		"persistence":  {"persistence", "FAKENVML_PERSISTENCE=0", doctor.Warn, "off"},
		"others":       {"gpu-processes", "FAKENVML_PROCESSES=2", doctor.Warn, "2 processes"},
		"confidential": {"confidential", "FAKENVML_CONFIDENTIAL=1", doctor.Warn, "on"},
		"unsupported":  {"persistence", "FAKENVML_FAIL=nvmlDeviceGetPersistenceMode=3", doctor.Skipped, "does not tell"},
		"crash":        {"persistence", "FAKENVML_CRASH=nvmlDeviceGetMigMode", doctor.Fail, "SIGABRT"},
		"lost":         {"gpu-processes", "FAKENVML_FAIL=nvmlDeviceGetHandleByPciBusId_v2=15", doctor.Fail, "fallen off the bus"},
		"lost at work": {"pinned-copies", "FAKECUDA_FAIL=cuMemcpyHtoDAsync_v2=999", doctor.Fail, "CUDA_ERROR_UNKNOWN"},
		"no start":     {"driver", "FAKECUDA_FAIL=cuDevicePrimaryCtxRetain=999", doctor.Fail, "cannot be opened"},
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && c.status != doctor.Fail {
				t.Skip("what fails is enough")
			}
			key, value, _ := strings.Cut(c.set, "=")
			t.Setenv(key, value)
			_, list := findings(t, "--device", "cuda:0", "--only", c.check)
			f := list[c.check]
			if f.Status != c.status || !strings.Contains(f.Measured+f.Reason, c.says) {
				t.Errorf("%+v, want %q with %q", f, c.status, c.says)
			}
		})
	}
}

// A library that hangs is a failed check; the others that need it refer to that.
func TestDoctorHang(t *testing.T) {
	fakeGPU(t)
	t.Setenv("FAKENVML_HANG", "nvmlInit_v2")
	r, list := findings(t, "--device", "host:64MiB", "--only", "libraries,wsl")
	if f := list["libraries"]; f.Status != doctor.Fail || !strings.Contains(f.Measured, "no answer within") {
		t.Errorf("%+v", f)
	}
	if f := list["wsl"]; f.Status == doctor.Fail {
		t.Errorf("%+v", f)
	}
	if r.code != exitFailed || !strings.Contains(r.stderr, "something broken") {
		t.Errorf("exit code %d: %s", r.code, r.stderr)
	}
}

// An interrupt ends a run while a library hangs.
func TestDoctorInterrupt(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not interrupt single processes")
	}
	fakeGPU(t)
	t.Setenv("FAKENVML_HANG", "nvmlInit_v2")
	r := process(t, func(p *os.Process) {
		time.Sleep(300 * time.Millisecond) // most likely in the hang; right anywhere
		ok(t, p.Signal(os.Interrupt))
	}, "doctor", "--device", "host:64MiB", "--only", "libraries")
	if r.code != exitFailed && r.code != -1 || r.stdout != "" { // -1: killed before it listened
		t.Errorf("exit code %d, %q, and on standard output %q", r.code, r.stderr, r.stdout)
	}
}

func TestDoctorUsage(t *testing.T) {
	for args, says := range map[string]string{
		"--only swop":          `--only is "swop", but must be one of`,
		"--skip swap,link-wid": "did you mean link-width?",
		"--device coda":        "did you mean cuda?",
		"extra":                "takes no arguments",
		"child":                "only doctor itself",
		"child nosuch {}":      "only doctor itself",
	} {
		r := pinion(t, append([]string{"doctor"}, strings.Fields(args)...)...)
		if r.code != exitUsage || !strings.Contains(r.stderr, says) || r.stdout != "" {
			t.Errorf("%q: exit code %d, %q", args, r.code, r.stderr)
		}
	}
}

// A device that cannot be called so is bad use, not something that is broken.
func TestDoctorDeviceName(t *testing.T) {
	r := process(t, nil, "doctor", "--device", "host:0", "--only", "driver")
	if r.code != exitUsage || !strings.Contains(r.stderr, `device "host:0"`) || strings.Contains(r.stderr, "bad argument") || r.stdout != "" {
		t.Errorf("exit code %d, %q", r.code, r.stderr)
	}
}

func TestDoctorList(t *testing.T) {
	r := pinion(t, "doctor", "--list")
	for _, c := range doctor.Checks() {
		if !strings.Contains(r.stdout, c.Name) {
			t.Errorf("%s is not listed", c.Name)
		}
	}
	var doc struct {
		Checks []struct{ Name, Family, Asks string }
	}
	ok(t, json.Unmarshal([]byte(pinion(t, "doctor", "--list", "--json").stdout), &doc))
	if len(doc.Checks) != len(doctor.Checks()) || doc.Checks[0].Asks == "" {
		t.Errorf("%+v", doc)
	}
}
