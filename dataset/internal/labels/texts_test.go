package labels

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// TestRead: numbers are classes, other text is text, and what is a number but no
// class is an error.
func TestRead(t *testing.T) {
	for text, want := range map[string]Value{
		" 7\n": {Number: 7}, "-1": {Number: -1}, "": {Number: -1}, " \n": {Number: -1}, "007": {Number: 7},
		"cat": {Text: "cat"}, " two words\n": {Text: "two words"}, "3m": {Text: "3m"}, "nan": {Text: "nan"}, "Inf": {Text: "Inf"}, "1,2": {Text: "1,2"},
		"2147483647": {Number: 2147483647},
	} {
		r, _ := NewSource("", "").Find("CLS")
		got, err := r.Read(strings.NewReader(text), int64(len(text)))
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"0.5", "1e3", "-2", "2147483648", "1e999", "0x1p4", "\xff"} {
		_, err := Reader{}.Read(strings.NewReader(text), int64(len(text)))
		testkit.WantError(t, text, err, dataset.ErrFormat, "whole number")
	}
	long := `{"a":"` + strings.Repeat("x", MaxText+1) + `"}`
	_, err := Reader{field: "a"}.Read(strings.NewReader(long), int64(len(long)))
	testkit.WantError(t, "long text in JSON", err, dataset.ErrTooLarge, "1025 bytes", "captions")
	_, err = Reader{field: "a"}.Read(nil, maxField+1)
	testkit.WantError(t, "much JSON", err, dataset.ErrTooLarge, "1048577 bytes")
}

func TestTexts(t *testing.T) {
	var texts Texts
	for _, text := range []string{"dog", "cat", "dog", "ant"} {
		testkit.Must(texts.Number(text))(t)
	}
	names, places := texts.Sorted(func(n int32) bool { return n != 2 })
	if !slices.Equal(names, []string{"cat", "dog"}) || places[0] != 1 || places[1] != 0 {
		t.Errorf("%q at %v", names, places)
	}
	if places, ok := texts.In([]string{"dog", "ant", "dog", "cat"}); !ok || !slices.Equal(places, []int32{0, 3, 1}) {
		t.Errorf("at %v, %t", places, ok)
	}
	if _, ok := texts.In([]string{"dog", "ant"}); ok {
		t.Error("a text that is not there")
	}

	var many, long Texts
	var err error
	n := 0
	for ; err == nil; n++ {
		_, err = many.Number(strconv.Itoa(n))
	}
	if testkit.WantError(t, "many", err, dataset.ErrTooLarge, "262144 different texts", "--label"); n != MaxClasses+1 {
		t.Errorf("%d texts", n)
	}
	if _, err := many.Number("5"); err != nil {
		t.Errorf("one that is there: %v", err)
	}
	err = nil
	for n = 0; err == nil; n++ {
		_, err = long.Number(strings.Repeat("x", MaxText-8) + strconv.Itoa(n+10_000_000))
	}
	if testkit.WantError(t, "long", err, dataset.ErrTooLarge, "16777216 bytes"); n != MaxClassesBytes/MaxText+1 {
		t.Errorf("%d texts", n)
	}
}
