package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"image"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/cli"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// The exit codes.
const exitDone, exitFailed, exitUsage = cli.ExitDone, cli.ExitFailed, cli.ExitUsage

// TestMain makes the test binary the command itself where a test asks for it,
// and keeps the tests off a GPU.
func TestMain(m *testing.M) {
	if os.Getenv("PINION_TEST_MAIN") != "" {
		registerStuck()
		main() // with the environment of the test that started it
	}
	os.Setenv("PINION_LIB_CUDA", "off")
	os.Setenv("PINION_TOP", "off") // pinion top need not show what tests run
	os.Exit(m.Run())
}

// result is what a run of the command leaves.
type result struct {
	code   int
	stdout string
	stderr string // of the command and of cli.Report
}

// pinion runs the command in this process.
func pinion(t testing.TB, args ...string) result {
	t.Helper()
	return pinionWith(t, context.Background(), args...)
}

func pinionWith(t testing.TB, ctx context.Context, args ...string) (r result) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	root := newRoot()
	root.SetArgs(append([]string{}, args...)) // of nil, those of the test
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	err := root.ExecuteContext(ctx)
	r.stdout = stdout.String()
	text := captureStderr(t, func() { r.code = cli.Report(err) })
	r.stderr = stderr.String() + text
	return r
}

// captureStderr returns what fn writes to standard error.
func captureStderr(t testing.TB, fn func()) string {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "stderr")
	ok(t, err)
	defer f.Close()
	old := os.Stderr
	os.Stderr = f
	defer func() { os.Stderr = old }()
	fn()
	text, err := os.ReadFile(f.Name())
	ok(t, err)
	return string(text)
}

// ok ends the test if err is not nil.
var ok = testkit.OK

// document runs a command that prints JSON and checks that it is one document
// with at least those keys.
func document(t testing.TB, keys []string, args ...string) map[string]any {
	t.Helper()
	r := pinion(t, args...)
	if r.code != exitDone {
		t.Fatalf("%q: exit code %d: %s", args, r.code, r.stderr)
	}
	return parse(t, r.stdout, keys)
}

func parse(t testing.TB, text string, keys []string) map[string]any {
	t.Helper()
	var doc map[string]any
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatalf("not one JSON document: %v\n%s", err, text)
	}
	for _, k := range keys {
		if _, there := doc[k]; !there {
			t.Errorf("no key %q", k)
		}
	}
	return doc
}

// writeFile makes a file in dir, with its folders.
func writeFile(t testing.TB, dir, name string, data []byte) string {
	t.Helper()
	return testkit.WriteFile(t, data, dir, filepath.FromSlash(name))
}

// picture is something to encode, no two alike.
func picture(number int) image.Image {
	m := image.NewRGBA(image.Rect(0, 0, 40, 30))
	for i := range m.Pix {
		m.Pix[i] = byte(i*number + i/7)
		if i%4 == 3 {
			m.Pix[i] = 255
		}
	}
	return m
}

func jpegOf(t testing.TB, number int) []byte {
	t.Helper()
	var b bytes.Buffer
	ok(t, jpeg.Encode(&b, picture(number), nil))
	return b.Bytes()
}

func pngOf(t testing.TB, number int) []byte {
	t.Helper()
	var b bytes.Buffer
	ok(t, png.Encode(&b, picture(number)))
	return b.Bytes()
}

// makePhotos is a folder of n good images, in two classes.
func makePhotos(t testing.TB, n int) string {
	t.Helper()
	dir := t.TempDir()
	for i := range n {
		if i%2 == 0 {
			writeFile(t, dir, fmt.Sprintf("even/%02d.jpg", i), jpegOf(t, i+1))
		} else {
			writeFile(t, dir, fmt.Sprintf("odd/%02d.png", i), pngOf(t, i+1))
		}
	}
	return dir
}

// hugeJPEG claims to have 60,000 x 60,000 pixels.
func hugeJPEG(t testing.TB) []byte {
	t.Helper()
	b := jpegOf(t, 1)
	at := bytes.Index(b, []byte{0xFF, 0xC0}) // start of frame
	if at < 0 {
		t.Fatal("no start of frame in a JPEG")
	}
	binary.BigEndian.PutUint16(b[at+5:], 60000)
	binary.BigEndian.PutUint16(b[at+7:], 60000)
	return b
}

// hugePNG claims the same, with a checksum that is right.
func hugePNG(t testing.TB) []byte {
	t.Helper()
	b := pngOf(t, 1)
	header := b[12:29] // type and content of the first chunk
	binary.BigEndian.PutUint32(header[4:], 60000)
	binary.BigEndian.PutUint32(header[8:], 60000)
	binary.BigEndian.PutUint32(b[29:], crc32.ChecksumIEEE(header))
	return b
}

// npy is an array of n float32 with that header.
func npy(header string, n int) []byte {
	header += strings.Repeat(" ", 63-(10+len(header))%64) + "\n"
	b := append([]byte("\x93NUMPY\x01\x00"), byte(len(header)), byte(len(header)>>8))
	b = append(b, header...)
	for i := range n {
		b = append(b, byte(i), byte(i>>8), 0, 63)
	}
	return b
}

// allocated is how many bytes fn takes from the Go heap in all.
func allocated(fn func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}
