package all_test

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	_ "github.com/pinion-gpu/pinion/dataset/all"
	"github.com/pinion-gpu/pinion/dataset/internal/datatest"
	"github.com/pinion-gpu/pinion/dataset/npy"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

func TestOpenTellsKinds(t *testing.T) {
	cloud, scan := make([]byte, 16), volume(make([]byte, 8), 2, 2, 2)
	long := "[" + strings.Repeat("1, ", dataset.SniffBytes) + "1]\n" // beyond what is looked at
	for _, c := range []struct {
		name string
		file []byte
		want string
	}{
		{"array", array(), "*npy.Array"},
		{"archive", npz(t, array(), 0), "*npy.NPZ"},
		{"volume", scan, "*nifti.File"},
		{"compressed volume", zipped(t, scan), "*nifti.File"},
		{"tensors", tensors(), "*safetensors.Dataset"},
		{"objects", []byte("\n{\"x\": [1, 2]}\n"), "*jsonl.Dataset"},
		{"arrays", []byte("[1, 2]\n[3, 4]\n"), "*jsonl.Dataset"},
		{"a long line", []byte(long + long), "*jsonl.Dataset"},
		{"rows", []byte("1,2\n"), "*csv.Dataset"},
		{"rows with names", []byte("a,b\n1,2\n"), "*csv.Dataset"},
		{"rows with a comment", []byte("# by hand\n1 2 3\n4 5 6"), "*csv.Dataset"},
		{"a wide row", []byte(strings.Repeat("1,", dataset.SniffBytes) + "1\n"), "*csv.Dataset"},
	} {
		d, err := dataset.Open(t.Context(), datatest.WriteFile(t, filepath.Join(t.TempDir(), "a"), c.file), nil)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := fmt.Sprintf("%T", d); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		testkit.OK(t, dataset.Close(d))
	}
	for _, c := range []struct {
		name  string
		files map[string][]byte
		want  string
	}{
		{"photos first", map[string][]byte{"a.png": nil, "b.bin": cloud, "c.nii": scan}, "*photos.Images"},
		{"clouds", map[string][]byte{"b.bin": cloud, "readme": cloud}, "*points.Dataset"},
		{"volumes before clouds", map[string][]byte{"x/c.nii.gz": zipped(t, scan), "b.bin": cloud}, "*nifti.Folder"},
	} {
		d, err := dataset.Open(t.Context(), datatest.Folder(t, c.files), nil)
		if got := fmt.Sprintf("%T", d); err != nil || got != c.want {
			t.Errorf("%s: %s, %v, want %s", c.name, got, err, c.want)
		}
	}
	_, err := dataset.Open(t.Context(), t.TempDir(), nil)
	testkit.WantError(t, "empty folder", err, dataset.ErrEmpty, "photos (.jpg, .jpeg, .png, .webp)", "point clouds (.bin, .pcd)", "NIfTI volumes (.nii, .nii.gz)")
	_, err = dataset.Open(t.Context(), datatest.Folder(t, map[string][]byte{"a.bin": make([]byte, 15)}), nil)
	testkit.WantError(t, "bad cloud", err, dataset.ErrDamaged, "a.bin: ")
	for _, text := range []string{"hello", "some words\nand 2 more\n3\n", "1,2\n\x00", "\x02\x00\x00\x00\x00\x00\x00\x00{", "{\"x\": [1}\n", "\x1f\x8b not compressed"} {
		_, err = dataset.Open(t.Context(), datatest.WriteFile(t, filepath.Join(t.TempDir(), "a"), []byte(text)), nil)
		testkit.WantError(t, text, err, dataset.ErrFormat, "neither a folder nor one of CSV, JSON lines, NIfTI volumes, NumPy .npy, NumPy .npz, Parquet, ")
	}
}

func TestOpen(t *testing.T) {
	dir := datatest.Folder(t, map[string][]byte{
		"photos/a/x.png": nil,
		"array":          datatest.NPY(1, datatest.NPYHeader("<f4", 3, 2), make([]byte, 24)),
		"words":          []byte("words"),
		"words.csv":      []byte("a,b,label\n1,2,cat\n3,4,dog\n"),
		"nothing":        {},
	})
	open := func(name string, opts dataset.Options) (dataset.Dataset, error) {
		return dataset.Open(t.Context(), filepath.Join(dir, name), opts)
	}
	photos, err := open("photos", dataset.Options{"transform": "center:16"})
	if err != nil || photos.Len() != 1 || photos.Spec().String() != "16x16x3 u8" {
		t.Errorf("folder: %v, %v", photos, err)
	}
	if e, ok := dataset.As[dataset.Encoded](photos); !ok || e.Transform() != imaging.CenterCrop(16) {
		t.Error("photos are not encoded")
	}
	deep, err := open("photos", dataset.Options{"size": 8, "depth": "16", "channels": 1})
	if err != nil || deep.Spec().String() != "8x8x1 u16" {
		t.Errorf("deep: %v", err)
	}
	d, err := open("array", nil)
	if err != nil {
		t.Fatal(err)
	}
	if n, ok := dataset.As[*npy.Array](d); !ok || n.Len() != 3 || n.Spec().String() != "2 f32" || dataset.Close(d) != nil {
		t.Errorf("array: %v", d)
	}
	for name, text := range map[string]string{
		"words": `its 5 B begin with "words"`, "words.csv": `:2: format not supported: column 2 "label": "cat" is not a number`,
	} {
		d, err := open(name, nil)
		testkit.WantError(t, name, err, dataset.ErrFormat, text)
		if d != nil {
			t.Errorf("%s: there is a %T beside the error", name, d)
		}
	}
	_, err = open("missing", nil)
	testkit.WantError(t, "missing", err, fs.ErrNotExist, filepath.Join(dir, "missing"))
	_, err = open("wrods.csv", nil)
	testkit.WantError(t, "a typo", err, fs.ErrNotExist, "wrods.csv: ", "; in "+dir+` there is "words.csv"`)
	_, err = open(filepath.Join("fotos", "a", "x.png"), nil)
	testkit.WantError(t, "a folder above", err, fs.ErrNotExist, "; in "+dir+` there is "photos"`)
	_, err = dataset.Open(t.Context(), "s3://bucket/train-{000..127}.tar", nil)
	testkit.WantError(t, "a bucket", err, dataset.ErrFormat, `s3://…: format not supported: shards are read by http and https, and as files`)
}

// TestOptions: an option goes to formats that have it, as text or typed.
func TestOptions(t *testing.T) {
	dir := datatest.Folder(t, map[string][]byte{
		"photos/x.png": nil, "a.npy": array(), "a.csv": []byte("x,y\n1,2\n"), "a.bin": []byte("abcdef"),
	})
	for _, c := range []struct {
		name    string
		opts    dataset.Options
		says    string
		formats string // that have it; "" for a bad value
	}{
		{"a.npy", dataset.Options{"size": 4}, "option \"size\" is for Parquet, photos, tar streams, tar shards, and this is NumPy .npy", "[Parquet photos tar streams tar shards]"},
		{"a.csv", dataset.Options{"nonsense": 1}, `no format has an option "nonsense"`, "[]"},
		{"a.csv", dataset.Options{"lable": "y"}, `no format has an option "lable"; did you mean "label"?`, "[]"},
		{"photos", dataset.Options{"size": "big"}, `"big" is not a valid whole number`, ""},
		{"photos", dataset.Options{"size": 0}, "0 is not from 1 to 65535", ""},
		{"photos", dataset.Options{"size": 1.5}, "a float64, want whole number", ""},
		{"photos", dataset.Options{"depth": 12}, "12 is not 8 or 16", ""},
		{"photos", dataset.Options{"transform": "upside-down"}, "upside-down", ""},
		{"a.bin", dataset.Options{"raw": "4x,u8"}, "4x", ""},
	} {
		_, err := dataset.Open(t.Context(), filepath.Join(dir, c.name), c.opts)
		testkit.WantError(t, fmt.Sprint(c.opts), err, dataset.ErrArgument, c.says, c.name)
		var bad *dataset.OptionError
		if !errors.As(err, &bad) || (bad.Err == nil) != (c.formats != "") || c.formats != "" && fmt.Sprint(bad.Formats) != c.formats {
			t.Errorf("%v: %+v", c.opts, bad)
		}
	}
	d, err := dataset.Open(t.Context(), filepath.Join(dir, "a.bin"), dataset.Options{"raw": "2x1,u8", "on-retry": func() {}})
	if err != nil || d.Len() != 3 || d.Spec().String() != "2x1 u8" {
		t.Errorf("bare samples: %v", err)
	}
	testkit.OK(t, dataset.Close(d))
}

// TestFormatTable: documents are made of the formats.
func TestFormatTable(t *testing.T) {
	table := dataset.FormatTable()
	for _, want := range []string{"| `csv`: CSV | ", "| `photos`: photos | folder of .jpg, ", " `size` `depth` `channels` `transform` "} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
	for _, f := range dataset.Formats() {
		if f.Title == "" || f.Files == "" || f.Samples == "" {
			t.Errorf("%s: %+v", f.Name, f)
		}
		for _, o := range f.Options {
			if o.Usage == "" || o.Default != "" && o.Check(o.Default) != nil {
				t.Errorf("%s: option %+v", f.Name, o)
			}
		}
	}
}

func TestSpecString(t *testing.T) {
	if s := (dataset.Spec{DType: dtype.F32}).String(); s != "scalar f32" {
		t.Error(s)
	}
}
