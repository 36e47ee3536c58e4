package imaging

import (
	"errors"
	"strings"
	"testing"
)

func TestParseTransform(t *testing.T) {
	usual := Jitter{0.4, 0.4, 0.4, 0.1}
	tests := []struct {
		text string
		want Transform
		back string // what String makes of it; text if empty
	}{
		{"", CenterCrop(96), "center:96"},
		{" ", CenterCrop(96), "center:96"},
		{"center", CenterCrop(96), "center:96"},
		{"center:224", CenterCrop(224), ""},
		{"resize:256,crop:224", CenterCrop(224).WithShorter(256), ""},
		{"crop,resize:256", CenterCrop(96).WithShorter(256), "resize:256,crop:96"},
		{"resize:96,crop:96", CenterCrop(96), "center:96"},
		{"stretch", Stretch(96, 96), "stretch:96x96"},
		{"stretch:128x64", Stretch(128, 64), ""},
		{"rrc:224,flip,jitter", RandomResizedCrop(224).WithFlip(0.5).WithJitter(usual), "rrc:224,flip:0.5,jitter:0.4,0.4,0.4,0.1"},
		{"rrc", RandomResizedCrop(96), "rrc:96"},
		{"rrc:64,scale:0.2,1,ratio:0.5,2", RandomResizedCrop(64).WithScale(0.2, 1).WithRatio(0.5, 2), ""},
		{"scale:.2,.9 , rrc:64", RandomResizedCrop(64).WithScale(0.2, 0.9), "rrc:64,scale:0.2,0.9"},
		{"rrc:64,flip,nearest", RandomResizedCrop(64).WithFlip(0.5).WithFilter(Nearest), "rrc:64,flip:0.5,nearest"},
		{"bicubic", CenterCrop(96).WithFilter(Bicubic), "center:96,bicubic"},
		{"bilinear,flip:1", CenterCrop(96).WithFlip(1), "center:96,flip:1"},
		{"jitter:0.3", CenterCrop(96).WithJitter(Jitter{Brightness: 0.3}), "center:96,jitter:0.3,0,0,0"},
		{"jitter:0.3,0,1e-3,.5,flip:0.25", CenterCrop(96).WithFlip(0.25).WithJitter(Jitter{0.3, 0, 0.001, 0.5}), "center:96,flip:0.25,jitter:0.3,0,0.001,0.5"},
	}
	for _, c := range tests {
		got, err := ParseTransform(c.text, 96)
		if err != nil || got != c.want {
			t.Errorf("%q: %v, %v", c.text, got, err)
			continue
		}
		if c.back == "" {
			c.back = c.text
		}
		if got.String() != c.back {
			t.Errorf("%q becomes %q", c.text, got)
		}
	}
}

func TestParseTransformErrors(t *testing.T) {
	for text, want := range map[string]string{
		"rcc:224":             `"rcc" is unknown`,
		"rrc:224,center:224":  `"center" is unknown or does not go with the rest`,
		"rrc:224,crop:100":    `"crop" is unknown or does not go`,
		"resize:256":          "resize and crop go together",
		"crop:224":            "resize and crop go together",
		"resize:200,crop:224": "want a shorter side of 224",
		"rrc:big":             `rrc:"big": want a whole number`,
		"rrc:12,34":           `rrc:"12,34": want a whole number`,
		"224":                 `"224" is unknown`,
		"rrc:224,":            `"" is unknown`,
		"rrc:-1":              "want sides of 1 to 65535",
		"rrc:65536":           "want sides of 1 to 65535",
		"stretch:128":         "want WIDTHxHEIGHT",
		"stretch:0x5":         "want sides",
		"scale:0.5,1":         "only a random resized crop",
		"rrc,scale:0.5":       "want 2 to 2 numbers",
		"rrc,scale":           "want 2 to 2 numbers",
		"rrc,scale:0,1":       "want areas above 0",
		"rrc,scale:0.5,0.4":   "want areas",
		"rrc,scale:0.5,1.5":   "want areas",
		"rrc,ratio:0,1":       "want ratios",
		"rrc,ratio:1,2,3":     "want 2 to 2 numbers",
		"flip:1.5":            "want a probability",
		"flip:half":           "want numbers",
		"flip,flip":           `"flip" is there twice`,
		"bicubic:2":           "want 0 to 0 numbers",
		"bilinear,nearest":    `"nearest" is unknown or does not go`,
		"jitter:1,1,1,0.6":    "hue is 0 to 0.5",
		"jitter:1,1,1,0,1":    "want 0 to 4 numbers",
		"jitter:101":          "0 to 100",
		"a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q,r,s,t": `"a" is unknown`,
	} {
		_, err := ParseTransform(text, 96)
		if !errors.Is(err, ErrArgument) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := ParseTransform(strings.Repeat("x", 1<<16), 96); err == nil || len(err.Error()) > 700 {
		t.Errorf("a long text: an error of %d bytes", len(err.Error()))
	}
	if _, err := ParseTransform("", 0); !errors.Is(err, ErrArgument) {
		t.Errorf("size 0: %v", err)
	}
}

// FuzzParseTransform: what is understood is valid, and String gives it back.
func FuzzParseTransform(f *testing.F) {
	for _, s := range []string{"rrc:224,flip,jitter", "resize:256,crop:224,bicubic", "stretch:128x96,flip:0.3", "rrc,scale:0.2,1,ratio:.5,2", "center:8,jitter:1,2,3,0.4"} {
		f.Add(s, 64)
	}
	f.Fuzz(func(t *testing.T, s string, size int) {
		got, err := ParseTransform(s, size)
		if err != nil {
			if !errors.Is(err, ErrArgument) {
				t.Fatal(err)
			}
			return
		}
		if err := got.Check(); err != nil {
			t.Fatal(err)
		}
		if again, err := ParseTransform(got.String(), 1); err != nil || again != got {
			t.Fatalf("%q is %+v, its text %q is %+v, %v", s, got, got, again, err)
		}
	})
}

func TestTransformFacts(t *testing.T) {
	for _, c := range []struct {
		t             Transform
		width, height int
		random        bool
	}{
		{CenterCrop(7), 7, 7, false},
		{Stretch(7, 9), 7, 9, false},
		{Stretch(7, 9).WithFlip(1).WithFilter(Bicubic), 7, 9, false},
		{Stretch(7, 9).WithFlip(0.5), 7, 9, true},
		{Stretch(7, 9).WithJitter(Jitter{Hue: 0.1}), 7, 9, true},
		{RandomResizedCrop(5), 5, 5, true},
	} {
		width, height := c.t.Size()
		if width != c.width || height != c.height || c.t.Bytes() != 3*width*height || c.t.Random() != c.random {
			t.Errorf("%v: %dx%d, %d bytes, random %t", c.t, width, height, c.t.Bytes(), c.t.Random())
		}
	}
	if j := (Jitter{1, 2, 3, 0.25}); CenterCrop(5).WithJitter(j).Jitter() != j {
		t.Error("the jitter changed")
	}
}
