package cuda_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/cuda"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

func buildFakeCuFile(t *testing.T) string {
	t.Helper()
	return testkit.Library(t, "libfakecufile.so", "testdata/fakecufile/fakecufile.c")
}

func TestFakeCuFile(t *testing.T) {
	inChild(t, "TestCuFile", "PINION_DEVICE=cuda:0", "PINION_LIB_CUDA="+buildFake(t), "PINION_LIB_NVML=off",
		"PINION_LIB_CUFILE="+buildFakeCuFile(t))
	inChild(t, "TestCuFileAbsent", "PINION_LIB_CUDA="+buildFake(t), "PINION_LIB_NVML=off", "PINION_LIB_CUFILE=off")
	inChild(t, "TestCuFileAbsent", "PINION_LIB_CUDA="+buildFake(t), "PINION_LIB_NVML=off",
		"PINION_LIB_CUFILE="+buildFakeCuFile(t), "FAKECUFILE_FAIL=1", "WANT=cuFileDriverOpen: error 5014 of cuFile: cuFileDriverOpen: CUDA_ERROR_UNKNOWN")
}

func openCUDA(t *testing.T) *cuda.Device {
	t.Helper()
	dev, err := cuda.Open(0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { dev.Close() })
	return dev
}

// TestCuFile reads and writes by the library that is there, whichever.
func TestCuFile(t *testing.T) {
	if os.Getenv("PINION_DEVICE") != "cuda:0" {
		t.Skip("PINION_DEVICE is not cuda:0")
	}
	const n = 3<<20 + 512
	dev := openCUDA(t)
	want := bytes.Repeat([]byte("some words, "), n/12+1)[:n]
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.Write(want); err != nil {
		t.Fatal(err)
	}
	stream, err := dev.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	p, err := dev.Alloc(n)
	if err != nil {
		t.Fatal(err)
	}
	if err := dev.MovesStraight(file); err != nil {
		if !errors.Is(err, device.ErrNotSupported) || strings.Contains(err.Error(), "\n") {
			t.Error(err)
		}
		t.Log(err)
	}
	f, err := dev.MoveFile(file)
	if errors.Is(err, device.ErrNotSupported) {
		t.Skip(err)
	}
	if err != nil && os.Getenv("CUFILE_ALLOW_COMPAT_MODE") == "" {
		// The library takes no file on a drive that it cannot ask udev about,
		// and none without nvidia-fs unless it is told to.
		t.Skip("CUFILE_ALLOW_COMPAT_MODE=true is not set, and the library refuses the file: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for at := int64(0); at < n; {
		m, err := f.ReadTo(p.Add(at), n-at, at)
		if err != nil || m <= 0 {
			t.Fatalf("read at %d: %d, %v", at, m, err)
		}
		at += m
	}
	got := make([]byte, n)
	if err := errors.Join(stream.CopyD2H(got, p), stream.Synchronize()); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("wrong content, %v", err)
	}
	if m, err := f.WriteFrom(p.Add(512), 8192, 4096); m != 8192 || err != nil {
		t.Errorf("write: %d, %v", m, err)
	}
	copy(want[4096:], want[512:][:8192])
	if got, err = os.ReadFile(file.Name()); err != nil || !bytes.Equal(got, want) {
		t.Errorf("wrong content of the file, %v", err)
	}
	if m, err := f.ReadTo(p, 100, 2*n); m != 0 && err == nil {
		t.Errorf("behind the end: %d, %v", m, err)
	}
	if _, err := f.ReadTo(p, -1, 0); !errors.Is(err, device.ErrArgument) {
		t.Errorf("negative: %v", err)
	}
	if _, err := f.ReadTo(1<<60, 100, 0); !errors.Is(err, device.ErrPointer) {
		t.Errorf("no such memory: %v", err)
	}
	if strings.Contains(os.Getenv("PINION_LIB_CUFILE"), "fake") {
		if _, err := f.ReadTo(p, 1, 13); err == nil || !strings.Contains(err.Error(), "5022") {
			t.Errorf("refused: %v", err)
		}
	}
	for range 2 {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestCuFileAbsent(t *testing.T) {
	if os.Getenv("PINION_LIB_CUFILE") == "" {
		t.Skip("run by TestFakeCuFile")
	}
	dev := openCUDA(t)
	_, err := dev.MoveFile(os.Stdin)
	if !errors.Is(err, device.ErrNotSupported) || !strings.Contains(err.Error(), os.Getenv("WANT")) {
		t.Errorf("%v, want %q", err, os.Getenv("WANT"))
	}
}
