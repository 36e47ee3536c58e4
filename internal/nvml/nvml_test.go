package nvml_test

import (
	"errors"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/internal/dl"
	"github.com/pinion-gpu/pinion/internal/nvml"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// TestMachine asks for everything where there is a GPU with NVML. What is not
// supported there is logged; nothing else may fail, and figures make sense.
func TestMachine(t *testing.T) {
	if err := nvml.Open(); err != nil {
		t.Skip(err)
	}
	list, err := nvml.Devices()
	testkit.OK(t, err)
	good := func(what string, err error) bool {
		t.Helper()
		if errors.Is(err, nvml.ErrNotSupported) {
			t.Logf("%s: %v", what, err)
		} else if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		return err == nil
	}
	driver, err := nvml.DriverVersion()
	if good("driver version", err) && !strings.Contains(driver, ".") {
		t.Errorf("driver %q", driver)
	}
	_, err = nvml.Confidential()
	good("confidential", err)
	for _, d := range list {
		name, err := d.Name()
		good("name", err)
		uuid, err := d.UUID()
		if good("UUID", err) && !strings.HasPrefix(uuid, "GPU-") {
			t.Errorf("UUID %q", uuid)
		}
		l, err := d.Link()
		if good("link", err) && (l.Gen < 1 || l.Gen > l.MaxGen || l.Width < 1 || l.Width > 32) {
			t.Errorf("link %+v", l)
		}
		replays, err := d.Replays()
		good("replays", err)
		up, down, err := d.Throughput()
		if good("throughput", err) && (up > 1e12 || down > 1e12) {
			t.Errorf("throughput %g up, %g down", up, down)
		}
		persistent, err := d.Persistent()
		good("persistence", err)
		mig, err := d.MIG()
		good("MIG", err)
		c, err := d.Clocks()
		if good("clocks", err) && (c.SM < 1 || c.SM > 10000 || c.MaxSM < c.SM/2) {
			t.Errorf("clocks %+v", c)
		}
		r, err := d.Slowdown()
		good("slowdown", err)
		gpu, memory, err := d.Utilisation()
		if good("utilisation", err) && (gpu > 1 || memory > 1) {
			t.Errorf("utilisation %g, %g", gpu, memory)
		}
		m, err := d.Memory()
		if good("memory", err) && (m.TotalBytes < 1<<28 || m.FreeBytes > m.TotalBytes || m.UsedBytes > m.TotalBytes) {
			t.Errorf("memory %+v", m)
		}
		degrees, err := d.Temperature()
		if good("temperature", err) && (degrees < 1 || degrees > 120) {
			t.Errorf("%d degrees", degrees)
		}
		watts, limit, err := d.Power()
		if good("power", err) && (watts <= 0 || limit < watts/2) {
			t.Errorf("%g of %g watts", watts, limit)
		}
		processes, err := d.Processes()
		good("processes", err)
		for _, p := range processes {
			if p.PID <= 0 || p.UsedBytes > m.TotalBytes {
				t.Errorf("process %+v", p)
			}
		}
		use, newest, err := d.ProcessUse(0)
		good("process use", err)
		t.Logf("%s %s: link %+v, %d replays, %g up, %g down, persistent %v, MIG %v, clocks %+v, %q, busy %g and %g, %+v, %d degrees, %g of %g W, processes %+v, use %+v until %d",
			name, uuid, l, replays, up, down, persistent, mig, c, r, gpu, memory, m, degrees, watts, limit, processes, use, newest)
	}
}

// child runs one test of this binary on a stand-in for the library, in a
// process of its own, because a process loads it once.
func child(t *testing.T, test, file string, environment ...string) {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run=^"+test+"$", "-test.v", "-test.timeout=10m")
	c.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", "NVML_TEST="+test, "PINION_LIB_NVML="+file)
	c.Env = append(c.Env, environment...)
	text, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if !strings.Contains(string(text), "--- PASS: "+test) {
		t.Fatalf("%s did not run:\n%s", test, text)
	}
}

func fake(t *testing.T, flags ...string) string {
	t.Helper()
	return testkit.Library(t, "libfakenvml.so", append(flags, "testdata/fakenvml/fakenvml.c")...)
}

func inChild(t *testing.T) {
	t.Helper()
	if os.Getenv("NVML_TEST") != t.Name() {
		t.Skip("a part of TestFake")
	}
}

func TestFake(t *testing.T) {
	file := fake(t)
	child(t, "TestChildAll", file, "FAKENVML_DEVICES=2", "FAKENVML_REASONS=0x24", "FAKENVML_CONFIDENTIAL=1")
	child(t, "TestChildProcesses", file, "FAKENVML_PROCESSES=3", "FAKENVML_GRAPHICS=2")
	child(t, "TestChildProcesses", fake(t, "-DFAKENVML_WIDE"), "FAKENVML_PROCESSES=3", "FAKENVML_GRAPHICS=2")
	child(t, "TestChildManyProcesses", file, "FAKENVML_PROCESSES=1000")
	child(t, "TestChildOld", fake(t, "-DFAKENVML_OLD"), "FAKENVML_REASONS=1")
	child(t, "TestChildLost", file, "FAKENVML_DEVICES=2", "FAKENVML_FAIL=nvmlDeviceGetHandleByIndex_v2=15")
	child(t, "TestChildFails", file, "FAKENVML_FAIL=nvmlInit_v2=18")
	child(t, "TestMachine", file, "FAKENVML_DEVICES=2")
	child(t, "TestChildOff", "off")
}

func TestChildAll(t *testing.T) {
	inChild(t)
	list, err := nvml.Devices()
	testkit.OK(t, err)
	if len(list) != 2 {
		t.Fatalf("%d GPUs, want 2", len(list))
	}
	d := list[1]
	same, err := nvml.ByBusID("FA4E:02:00.0")
	testkit.OK(t, err)
	if same != d {
		t.Error("the second GPU is not at its address")
	}
	for _, id := range []string{"", "FA4E:03:00.0", "nonsense"} {
		if _, err := nvml.ByBusID(id); err == nil {
			t.Errorf("there is a GPU at %q", id)
		}
	}
	if got := testkit.Must(nvml.DriverVersion())(t); got != "580.95.05" {
		t.Errorf("driver %q", got)
	}
	if got := testkit.Must(nvml.Confidential())(t); !got {
		t.Error("not confidential")
	}
	if got := testkit.Must(d.Name())(t); got != "Fake GPU 1" {
		t.Errorf("name %q", got)
	}
	if got := testkit.Must(d.UUID())(t); got != "GPU-00000001-0000-0000-0000-000000000000" {
		t.Errorf("UUID %q", got)
	}
	if got := testkit.Must(d.Link())(t); got != (nvml.Link{Gen: 5, Width: 16, MaxGen: 5, MaxWidth: 16}) {
		t.Errorf("link %+v", got)
	}
	if got := testkit.Must(d.Replays())(t); got != 0 {
		t.Errorf("%d replays", got)
	}
	if got := testkit.Must(d.Persistent())(t); !got {
		t.Error("not persistent")
	}
	if got := testkit.Must(d.MIG())(t); got {
		t.Error("divided: that is only pending")
	}
	if got := testkit.Must(d.Clocks())(t); got != (nvml.Clocks{SM: 1000, Memory: 3000, MaxSM: 1980, MaxMemory: 3201}) {
		t.Errorf("clocks %+v", got)
	}
	if got := testkit.Must(d.Slowdown())(t); got != nvml.PowerCap|nvml.SoftThermal || got.String() != "power limit, heat (driver)" {
		t.Errorf("reasons %v", got)
	}
	if got := testkit.Must(d.Memory())(t); got != (nvml.Memory{TotalBytes: 80 << 30, FreeBytes: 60 << 30, UsedBytes: 20 << 30}) {
		t.Errorf("memory %+v", got)
	}
	if got := testkit.Must(d.Temperature())(t); got != 41 {
		t.Errorf("%d degrees", got)
	}
	gpu, memory, err := d.Utilisation()
	testkit.OK(t, err)
	if gpu != 0.75 || memory != 0.25 {
		t.Errorf("utilisation %v, %v", gpu, memory)
	}
	up, down, err := d.Throughput()
	testkit.OK(t, err)
	if up != 2e9 || down != 1e6 {
		t.Errorf("throughput %v up, %v down", up, down)
	}
	now, limit, err := d.Power()
	testkit.OK(t, err)
	if now != 123.456 || limit != 700 {
		t.Errorf("power %v of %v", now, limit)
	}
	use, newest, err := d.ProcessUse(0)
	testkit.OK(t, err)
	want := []nvml.ProcessUse{{PID: 1000, GPU: 0.3, Memory: 0.03, At: 7000}, {PID: 1001, GPU: 0.2, Memory: 0.02, At: 6000}}
	if newest != 7000 || !reflect.DeepEqual(use, want) {
		t.Errorf("use %+v, newest %d", use, newest)
	}
	if use, newest, err = d.ProcessUse(newest); err != nil || len(use) != 0 || newest != 7000 {
		t.Errorf("use since then %+v, newest %d, %v", use, newest, err)
	}
}

func TestChildProcesses(t *testing.T) {
	inChild(t)
	list, err := nvml.Devices()
	testkit.OK(t, err)
	got, err := list[0].Processes()
	testkit.OK(t, err)
	want := []nvml.Process{{PID: 999, UsedBytes: 1 << 20, Graphics: true}, {PID: 1000, UsedBytes: 1 << 20, Graphics: true},
		{PID: 1001, UsedBytes: -1}, {PID: 1002, UsedBytes: 3 << 20}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestChildManyProcesses(t *testing.T) {
	inChild(t)
	list, err := nvml.Devices()
	testkit.OK(t, err)
	got, err := list[0].Processes()
	testkit.OK(t, err)
	if len(got) != 1000 || got[999].PID != 1999 || got[999].UsedBytes != 1000<<20 {
		t.Errorf("%d processes", len(got))
	}
}

// What an old driver lacks is not supported; what has another name is found.
func TestChildOld(t *testing.T) {
	inChild(t)
	if _, err := nvml.Confidential(); !errors.Is(err, nvml.ErrNotSupported) || errors.Is(err, nvml.ErrLost) {
		t.Error(err)
	}
	list, err := nvml.Devices()
	testkit.OK(t, err)
	if got := testkit.Must(list[0].Slowdown())(t); got != nvml.Idle {
		t.Error(got)
	}
}

func TestChildLost(t *testing.T) {
	inChild(t)
	list, err := nvml.Devices()
	if len(list) != 0 || !errors.Is(err, nvml.ErrLost) || !strings.Contains(err.Error(), "fallen off the bus") {
		t.Errorf("%d GPUs, %v", len(list), err)
	}
}

func TestChildFails(t *testing.T) {
	inChild(t)
	err := nvml.Open()
	var e *nvml.Error
	if !errors.As(err, &e) || e.Call != "nvmlInit_v2" || e.Code != 18 || !strings.Contains(err.Error(), "another version") {
		t.Error(err)
	}
	if _, err := nvml.Devices(); err == nil {
		t.Error("Devices works without NVML")
	}
}

func TestChildOff(t *testing.T) {
	inChild(t)
	for _, err := range []error{nvml.Open(), second(nvml.Devices()), second(nvml.ByBusID("x")), second(nvml.DriverVersion()), second(nvml.Confidential())} {
		if !errors.Is(err, dl.ErrNotFound) {
			t.Error(err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestReasons(t *testing.T) {
	for r, want := range map[nvml.Reasons]string{
		0:                        "",
		nvml.Idle:                "idle",
		nvml.DisplayClocks | 512: "display clocks, 0x200",
	} {
		if got := r.String(); got != want {
			t.Errorf("%#x is %q, want %q", uint64(r), got, want)
		}
	}
}
