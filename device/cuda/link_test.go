package cuda_test

import (
	"os"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/cuda"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// The link is that of the GPU at the device's bus address; without NVML it is
// unknown.
func TestFakeLink(t *testing.T) {
	fake := buildFake(t)
	nvml := testkit.Library(t, "libfakenvml.so", "../../internal/nvml/testdata/fakenvml/fakenvml.c")
	for file, want := range map[string]string{nvml: "PCIe 5.0 x16", "off": ""} {
		inChild(t, "TestFakeLinkChild", "PINION_LIB_CUDA="+fake, "PINION_LIB_NVML="+file, "FAKENVML_GEN=1", "WANT_LINK="+want)
	}
}

func TestFakeLinkChild(t *testing.T) {
	want, ok := os.LookupEnv("WANT_LINK")
	if !ok {
		t.Skip("a part of TestFakeLink")
	}
	dev, err := cuda.Open(0)
	testkit.OK(t, err)
	defer dev.Close()
	l := dev.Info().Link
	if l.String() != want {
		t.Errorf("link %q, want %q", l, want)
	}
	if want != "" && l != (device.Link{Kind: "PCIe", Gen: 1, Width: 16, MaxGen: 5, MaxWidth: 16}) {
		t.Errorf("%+v", l)
	}
}
