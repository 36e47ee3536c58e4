package dataset

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
)

func TestOpenTellsKinds(t *testing.T) {
	array := npyFile(1, npyHeaderText("|u1", 4), []byte("abcd"))
	long := "[" + strings.Repeat("1, ", sniffBytes) + "1]\n" // beyond what is looked at
	for _, c := range []struct {
		name string
		file []byte
		want string
	}{
		{"array", array, "*dataset.NPY"},
		{"archive", npzFile(t, npzMember{"x.npy", 0, array}), "*dataset.NPZ"},
		{"volume", counted.bytes(t), "*dataset.NIfTI"},
		{"compressed volume", zipped(t, counted.bytes(t)), "*dataset.NIfTI"},
		{"tensors", tensorsFile("{"+entry("x", "U8", "2,2", 0, 4)+"}", []byte("abcd")), "*dataset.SafeTensors"},
		{"objects", []byte("\n{\"x\": [1, 2]}\n"), "*dataset.JSONLines"},
		{"arrays", []byte("[1, 2]\n[3, 4]\n"), "*dataset.JSONLines"},
		{"a long line", []byte(long + long), "*dataset.JSONLines"},
		{"rows", []byte("1,2\n"), "*dataset.CSV"},
	} {
		d, err := Open(t.Context(), writeFile(t, filepath.Join(t.TempDir(), "a"), c.file), Options{})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := fmt.Sprintf("%T", d); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		if file, ok := d.(io.Closer); ok {
			file.Close()
		}
	}
	cloud, volume := make([]byte, 16), counted.bytes(t)
	for _, c := range []struct {
		name  string
		files map[string][]byte
		want  string
	}{
		{"images first", map[string][]byte{"a.png": nil, "b.bin": cloud, "c.nii": volume}, "*dataset.Images"},
		{"clouds", map[string][]byte{"b.bin": cloud, "c.nii": volume, "readme": cloud}, "*dataset.PointClouds"},
		{"volumes", map[string][]byte{"x/c.nii.gz": zipped(t, volume)}, "*dataset.Volumes"},
	} {
		d, err := Open(t.Context(), folder(t, c.files), Options{})
		if got := fmt.Sprintf("%T", d); err != nil || got != c.want {
			t.Errorf("%s: %s, %v, want %s", c.name, got, err, c.want)
		}
	}
	_, err := Open(t.Context(), t.TempDir(), Options{})
	wantError(t, "empty folder", err, ErrEmpty, "no images (.jpg, .jpeg, .png, .webp), no points (.bin, .pcd), no volumes (.nii, .nii.gz) in it")
	_, err = Open(t.Context(), folder(t, map[string][]byte{"a.bin": make([]byte, 15)}), Options{})
	wantError(t, "bad cloud", err, ErrDamaged, "a.bin: ")
	for _, text := range []string{"{\n \"x\": [1]\n}\n", "hello", "{\"x\": [1}\n", "\x1f\x8b not compressed"} {
		_, err = Open(t.Context(), writeFile(t, filepath.Join(t.TempDir(), "a"), []byte(text)), Options{})
		wantError(t, text, err, ErrFormat, "neither a folder nor one of NumPy array, npz, NIfTI, tar, safetensors, JSON lines, rows of numbers; ")
	}
}
