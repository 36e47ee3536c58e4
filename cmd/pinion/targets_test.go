package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Masks of 16 bits keep them.
func TestDeepTargets(t *testing.T) {
	dir := t.TempDir()
	photo, mask := image.NewGray(image.Rect(0, 0, 16, 16)), image.NewGray16(image.Rect(0, 0, 16, 16))
	var want []byte
	for k := range photo.Pix {
		photo.Pix[k] = byte(k)
		want = append(want, byte(k))
	}
	for k := range photo.Pix {
		mask.SetGray16(k%16, k/16, color.Gray16{Y: uint16(250 * k)})
		want = binary.LittleEndian.AppendUint16(want, uint16(250*k))
	}
	for kind, m := range map[string]image.Image{"photos": photo, "depth": mask} {
		var file bytes.Buffer
		ok(t, png.Encode(&file, m))
		writeFile(t, dir, kind+"/1.png", file.Bytes())
	}
	sum := sha256.Sum256(want)
	d := digests(t, filepath.Join(dir, "photos"), "--channels", "1", "--dtype", "u8", "--targets", filepath.Join(dir, "depth"))
	if len(d) != 1 || d[0].SHA256 != hex.EncodeToString(sum[:]) {
		t.Errorf("%v, want %x", d, sum)
	}
}

// Masks are found by the names of their photos, arrays and lines go by number;
// what goes over the link is counted, and hashed behind the photos.
func TestFeedTargets(t *testing.T) {
	dir := t.TempDir()
	var want, lines []byte
	for i := range 3 {
		photo, mask := image.NewGray(image.Rect(0, 0, 16, 16)), image.NewPaletted(image.Rect(0, 0, 16, 16), color.Palette{color.White, color.Black, color.White})
		for k := range mask.Pix {
			photo.Pix[k], mask.Pix[k] = byte(k), byte((k+i)%3)
		}
		for kind, m := range map[string]image.Image{"photos": photo, "masks": mask, "other": photo} {
			var file bytes.Buffer
			ok(t, png.Encode(&file, m))
			writeFile(t, dir, fmt.Sprintf("%s/%d.png", kind, i), file.Bytes())
		}
		lines = append(lines, "["+strings.TrimSuffix(strings.Repeat("[1,2],", i), ",")+"]\n"...)
	}
	writeFile(t, dir, "boxes.jsonl", lines)
	writeFile(t, dir, "masks/unpaired.png", nil)
	photos, masks, boxes := filepath.Join(dir, "photos"), filepath.Join(dir, "masks"), filepath.Join(dir, "boxes.jsonl")
	for range 3 {
		for k := range 256 {
			want = append(want, byte(k))
		}
	}
	for i := range 3 {
		for k := range 256 {
			want = append(want, byte((k+i)%3))
		}
	}
	for _, x := range []float32{0, 0, 0, 0, 1, 2, 0, 0, 1, 2, 1, 2} {
		want = binary.LittleEndian.AppendUint32(want, math.Float32bits(x))
	}
	args := []string{"--channels", "1", "--dtype", "u8", "--targets", masks, "--targets", boxes}
	sum := sha256.Sum256(want)
	if d := digests(t, photos, args...); len(d) != 1 || d[0].SHA256 != hex.EncodeToString(sum[:]) {
		t.Errorf("%v, want %x", d, sum)
	}
	feed := func(args ...string) result {
		return pinion(t, append([]string{"feed", photos, "--device", "host", "--size", "16"}, args...)...)
	}
	r := feed(append(args, "--json")...)
	var out feedOutput
	ok(t, json.Unmarshal([]byte(r.stdout), &out))
	// Photos, masks and boxes; labels, up to a multiple of 16; lengths of boxes.
	if bytes := int64(2*3*256 + 3*2*2*4 + 12 + 4 + 12); out.H2DBytes != bytes || fmt.Sprint(out.Targets) != fmt.Sprintf("[with each 16x16x1 u8 of %s with each <=2x2 f32 of %s]", masks, boxes) {
		t.Errorf("%d bytes to the device, want %d; targets %v", out.H2DBytes, bytes, out.Targets)
	}
	if r := feed(args...); r.code != exitDone || !strings.Contains(r.stdout, "with each 16x16x1 u8 of "+masks) {
		t.Errorf("%d\n%s%s", r.code, r.stdout, r.stderr)
	}
	for path, say := range map[string]string{
		filepath.Join(dir, "nothing"): "--targets: ",
		photos + "/0.png":             "--targets: ",
	} {
		if r := feed("--targets", path); r.code != exitFailed || !strings.Contains(r.stderr, say) {
			t.Errorf("%s: %d\n%s", path, r.code, r.stderr)
		}
	}

	// pinion tune feeds them too, and says so.
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	page := filepath.Join(dir, "tune.html")
	tune := []string{"tune", photos, "--device", "host", "--size", "16", "--budget", "50ms", "--workers", "1", "--prefetch", "1", "--targets", masks, "--targets", boxes}
	if r := pinion(t, append(tune, "--report", page)...); r.code != exitDone ||
		!strings.Contains(r.stdout, "3 samples of 16x16x3 u8\nwith each 16x16x1 u8 of "+masks+"\nwith each <=2x2 f32 of "+boxes+"\n") {
		t.Errorf("%d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if html, err := os.ReadFile(page); err != nil || !strings.Contains(string(html), "with each 16x16x1 u8 of "+masks) {
		t.Errorf("the page says nothing of targets; %v", err)
	}
	var tuned tuneOutput
	ok(t, json.Unmarshal([]byte(pinion(t, append(tune, "--json")...).stdout), &tuned))
	if fmt.Sprint(tuned.Targets) != fmt.Sprint(out.Targets) {
		t.Errorf("targets %v, want %v", tuned.Targets, out.Targets)
	}

	writeFile(t, dir, "photos/new.png", nil)
	if r := feed("--targets", masks); r.code != exitFailed || !strings.Contains(r.stderr, "new.png: file does not exist: it has no partner") {
		t.Errorf("%d\n%s", r.code, r.stderr)
	}
	if r := feed("--targets", boxes); r.code != exitFailed || !strings.Contains(r.stderr, "it has 3 samples, the dataset has 4") {
		t.Errorf("%d\n%s", r.code, r.stderr)
	}
	r = pinion(t, "tune", masks, "--device", "host", "--size", "16", "--budget", "300ms", "--targets", boxes)
	if r.code != exitFailed || !strings.Contains(r.stderr, "it has 3 samples, the dataset has 4") {
		t.Errorf("%d\n%s%s", r.code, r.stdout, r.stderr)
	}
}
