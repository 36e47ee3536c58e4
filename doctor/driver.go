package doctor

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/pinion-gpu/pinion/internal/units"
)

// driverChecks are about the driver, its libraries, and where it runs.
var driverChecks = []Check{
	{Name: "driver", Family: "driver", Asks: "does the NVIDIA driver work, and is it new enough?", needs: []string{"device"}, run: checkDriver},
	{Name: "libraries", Family: "driver", Asks: "which optional libraries were found?", needs: []string{"libraries"}, run: checkLibraries},
	{Name: "persistence", Family: "driver", Asks: "does the driver stay loaded while nobody uses the GPU?", gpu: true, needs: []string{"nvml"}, run: checkPersistence},
	{Name: "confidential", Family: "driver", Asks: "is confidential computing on, which encrypts all copies?", gpu: true, needs: []string{"nvml"}, run: checkConfidential},
	{Name: "wsl", Family: "driver", Asks: "is this WSL or Windows, where pinned memory is limited?", run: checkWSL},
}

const why128 = "From CUDA 12.8 on, one call of the driver copies many blocks; before, only Pinion's kernel moves them together."

func checkDriver(m *machine) Result {
	d := m.device.facts
	gpus := units.Count(m.gpusOnBus(), "NVIDIA GPU") + " on the PCI bus"
	switch {
	case d.Error != "":
		remedy := "`pinion devices` lists what can be opened."
		if strings.HasPrefix(m.request.Device, "cuda") {
			remedy += " In a container: `docker run --gpus all`."
		}
		return fail(m.request.Device+" cannot be opened: "+d.Error, "Without its device a program does not start.", remedy)
	case m.request.Device != "auto" && d.Info.Backend == "host":
		return skipped("--device is %s", m.request.Device)
	case d.Info.Backend == "host" && m.gpusOnBus() > 0:
		remedy := "Install NVIDIA's driver, load it (`sudo modprobe nvidia`), and see what `nvidia-smi` says."
		if m.inContainer() {
			remedy = "Start the container with its GPUs and the driver: `docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility`."
		}
		return fail(gpus+", but none can be used: "+d.Passed, "Everything runs on the host's processors instead.", remedy)
	case d.Info.Backend == "host" && m.wsl():
		return fail("WSL without a GPU: "+d.Passed, "Everything runs on the host's processors instead.",
			"Install NVIDIA's driver on Windows, none inside WSL, and `wsl --update`; /usr/lib/wsl/lib must hold libcuda.so.1.")
	case d.Info.Backend == "host" && d.Passed != "" && !d.NoDriver:
		return warn("there is a driver, but no GPU can be used: "+d.Passed, "Everything runs on the host's processors instead.",
			"If there is a GPU: see what `nvidia-smi` says. In a container: `docker run --gpus all`.")
	case d.Info.Backend == "host":
		return skipped("there is no NVIDIA GPU on the PCI bus, and no driver")
	}
	version := "CUDA " + d.Info.DriverVersion
	if v := m.driverVersion(); v != "" {
		version = v + ", for " + version
	}
	version += fmt.Sprintf("; %s opened in %s", d.Info.ID, units.Seconds(d.OpenSeconds))
	if d.Info.Backend == "cuda" && !slices.Contains(d.Capabilities, "batch") {
		return warn(version, why128, "Install driver 570 or newer, which brings CUDA 12.8.")
	}
	return ok(version, why128)
}

// driverVersion is the kernel driver's: from its own file, which needs no library.
func (m *machine) driverVersion() string {
	_, after, found := strings.Cut(m.text("/proc/driver/nvidia/version"), "Kernel Module")
	if !found {
		return ""
	}
	for _, word := range strings.Fields(after) {
		if word[0] >= '0' && word[0] <= '9' {
			return word
		}
	}
	return ""
}

// libraryRemedies are how to get the libraries that matter without a GPU, and with
// one.
var libraryRemedies = []struct {
	name, package_, why string
	gpu                 bool
}{
	{"libturbojpeg", "`sudo apt install libturbojpeg0` (Fedora: `turbojpeg`)", "without libturbojpeg JPEGs are decoded in Go, which takes 4 to 6 times as long", false},
	{"nvJPEG", "libnvjpeg of the CUDA toolkit, where the loader finds it (LD_LIBRARY_PATH)", "without nvJPEG no JPEG is decoded on the GPU", true},
	{"NVML", "the capability `utility` of the container (NVIDIA_DRIVER_CAPABILITIES=compute,utility), or the driver's package", "without NVML the link is unknown", true},
}

func checkLibraries(m *machine) Result {
	var found, missing, whys, remedies []string
	for _, l := range m.libraries.facts {
		if l.File != "" {
			found = append(found, strings.TrimSpace(l.Name+" "+l.version()))
			continue
		}
		missing = append(missing, l.Name)
		for _, r := range libraryRemedies {
			if r.name == l.Name && (!r.gpu || m.gpusOnBus() > 0) {
				whys, remedies = append(whys, r.why), append(remedies, l.Name+": "+r.package_)
			}
		}
	}
	measured := "none found"
	if len(found) > 0 {
		measured = "found " + strings.Join(found, ", ")
	}
	if len(missing) > 0 {
		measured += "; not " + strings.Join(missing, ", ")
	}
	if len(remedies) == 0 {
		return ok(measured, "All libraries are optional; each adds what nothing else can do as fast.")
	}
	why := strings.Join(whys, "; ") + "."
	return warn(measured, strings.ToUpper(why[:1])+why[1:], strings.Join(remedies, "; ")+".")
}

// version is what the name of the file says, such as libcuda.so.580.95.05; "" where
// that is a number of the interface, as libturbojpeg.so.0.2.0 has.
func (l libraryFact) version() string {
	_, version, _ := strings.Cut(path.Base(l.File), ".so.")
	if !strings.Contains(version, ".") || strings.HasPrefix(version, "0.") || strings.Trim(version, "0123456789.") != "" {
		return ""
	}
	return version
}

func checkPersistence(m *machine) Result {
	f := m.nvml.facts
	if f.Persistent.Reason != "" {
		return skipped("%s", f.Persistent.Reason)
	}
	why := fmt.Sprintf("With persistence off, the driver unloads when the last program ends and starts the GPU again for the next; opening the device took %s now.",
		units.Seconds(m.device.facts.OpenSeconds))
	if !f.Persistent.Value {
		return warn("off", why, "`sudo nvidia-smi -pm 1` until the next boot, or enable nvidia-persistenced: `sudo systemctl enable --now nvidia-persistenced`. In a container: on its host.")
	}
	return ok("on", why)
}

func checkConfidential(m *machine) Result {
	f := m.nvml.facts
	const why = "Confidential computing encrypts what passes the link and copies it through bounce buffers, at a fraction of the link's rate."
	switch {
	case f.Confidential.Value:
		return warn("on", why, "If nothing here has to be confidential, switch it off on the host with NVIDIA's gpu-admin-tools (`nvidia_gpu_tools.py --set-cc-mode=off --reset-after-cc-mode-switch`). Else keep data on the GPU, and copy in large pieces.")
	case f.Confidential.Reason != "":
		return skipped("%s", f.Confidential.Reason)
	}
	return ok("off", why)
}

func checkWSL(m *machine) Result {
	const why = "On Windows and in WSL the system manages GPU memory: pinned memory is limited, copies start late, and NVML knows less."
	switch {
	case m.goos == "windows":
		return warn("Windows", why, "Measure with `pinion bench link`. Where the GPU allows it, use the TCC driver model (`nvidia-smi -dm 1`), or Linux.")
	case m.goos == "linux" && m.wsl():
		return warn("WSL: "+kernel(m), why, "Keep data inside the Linux file system, not under /mnt/c; give WSL memory in .wslconfig (`[wsl2] memory=`). For full speed boot Linux itself.")
	}
	return ok("neither WSL nor Windows", why)
}

// kernel is the release of the kernel.
func kernel(m *machine) string {
	f := strings.Fields(m.text("/proc/version"))
	if len(f) < 3 {
		return "unknown kernel"
	}
	return "kernel " + f[2]
}
