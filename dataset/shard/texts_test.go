package shard

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/dataset/internal/labels"
)

// labelled makes a shard of samples named by a letter each from first on, whose
// labels are these contents of the member.
func labelled(t testing.TB, first byte, extension string, contents ...string) []byte {
	t.Helper()
	var list []entry
	for i, content := range contents {
		key := string(first + byte(i))
		list = append(list, entry{name: key + "." + extension, content: content}, entry{name: key + ".jpg", content: "x"})
	}
	return pack(t, list...)
}

// classOf lists the samples with their classes.
func classOf(s *Set) string {
	var list []string
	names := s.Classes()
	for i := range s.Len() {
		class := "none"
		if l := s.Label(i); l >= 0 && names == nil {
			class = fmt.Sprint(l)
		} else if l >= 0 {
			class = fmt.Sprint(l, "=", names[l])
		}
		name := s.Name(i)
		list = append(list, name[strings.LastIndexByte(name, '/')+1:]+":"+class)
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

// TestTextLabels: texts are classes by their order over all shards, whatever the
// order of the shards and wherever the index comes from.
func TestTextLabels(t *testing.T) {
	files := map[string][]byte{
		"0.tar": labelled(t, 'a', "cls", "dog", " cat\n", "dog"),
		"1.tar": labelled(t, 'k', "cls", "bee", "", "cat", "-1"),
		"2.tar": labelled(t, 'p', "cls", "-1", ""),
		"3.tar": labelled(t, 't', "cls", "käse of 7 kinds"),
	}
	const want = "a:2=dog b:1=cat c:2=dog k:0=bee l:none m:1=cat n:none p:none q:none t:3=käse of 7 kinds"
	dir := t.TempDir()
	for name, content := range files {
		write(t, filepath.Join(dir, name), content)
	}
	kept, srv := options(t), newServer(t, files)
	for _, c := range []struct{ what, location string }{
		{"a folder", dir}, {"the cache", dir}, {"backwards", dir + "/{3,2,1,0}.tar"},
		{"a server", srv.URL + "/{0..3}.tar"}, {"a server and the cache", srv.URL + "/{2,0,1,3}.tar"},
	} {
		s := open(t, c.location, kept)
		if got := classOf(s); got != want {
			t.Errorf("%s: %s, want %s", c.what, got, want)
		}
		if s.Close(); !slices.Equal(s.Classes(), []string{"bee", "cat", "dog", "käse of 7 kinds"}) {
			t.Errorf("%s: %q", c.what, s.Classes())
		}
	}

	// Indexes of the version before are made anew.
	indexes, err := filepath.Glob(filepath.Join(kept.Cache, "*", "*"+IndexSuffix))
	if more, _ := filepath.Glob(filepath.Join(kept.Cache, "*"+IndexSuffix)); err != nil || len(indexes)+len(more) == 0 {
		t.Fatal("no indexes in the cache", err)
	} else {
		indexes = append(indexes, more...)
	}
	for _, path := range indexes {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		write(t, path, bytes.Replace(content, []byte("shards 3"), []byte("shards 2"), 1))
	}
	if got := classOf(open(t, dir, kept)); got != want {
		t.Errorf("with old indexes: %s, want %s", got, want)
	}
}

// TestLabelByName: a member of that name goes before a field of the JSON beside
// it, whichever comes first in the shard.
func TestLabelByName(t *testing.T) {
	shard := pack(t,
		entry{name: "a.json", content: `{"kind":"not this"}`}, entry{name: "a.kind", content: "x"},
		entry{name: "b.kind", content: "y"}, entry{name: "b.json", content: `{"kind":"nor this"}`},
		entry{name: "c.json", content: `{"kind":" z "}`},
		entry{name: "d.json", content: `{}`}, entry{name: "d.KIND", content: "x"},
		entry{name: "e.jpg"})
	path := write(t, filepath.Join(t.TempDir(), "x.tar"), shard)
	s := open(t, path, Options{NoCache: true, Label: "kind"})
	if got := classOf(s); got != "a:0=x b:1=y c:2=z d:0=x e:none" || len(s.Classes()) != 3 {
		t.Errorf("%s of %q", got, s.Classes())
	}
	if got := classOf(open(t, path, Options{NoCache: true})); strings.Count(got, "none") != 5 {
		t.Errorf("by default: %s", got)
	}
	for what, c := range map[string]struct{ json, says string }{
		"at the end":        {`{"other":1}`, `no field "kind"`},
		"no JSON":           {`kind`, "not JSON"},
		"a list":            {`{"kind":["a"]}`, "neither a number nor text"},
		"a number that not": {`{"kind":0.5}`, `the label is "0.5"`},
	} {
		for _, behind := range [][]entry{nil, {{name: "2.jpg"}}, {{name: "1.jpg"}, {name: "2.kind", content: "fine"}}} {
			shard := pack(t, append([]entry{{name: "1.json", content: c.json}}, behind...)...)
			_, err := scanned(t, shard, labels.NewSource("kind", ""))
			if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), `"1.json"`) || !strings.Contains(err.Error(), `has no member "kind"`) || strings.Contains(err.Error(), `"2.`) {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
}

// TestLabelsOfTwoKinds: numbers and texts do not go together, in a shard or in two.
func TestLabelsOfTwoKinds(t *testing.T) {
	for what, c := range map[string]struct {
		shards []string // labels with commas between them
		says   []string
	}{
		"in one":  {[]string{"1,2,-1,cat"}, []string{"0.tar", `the label of "d" is text, that of "a" is the number 1`}},
		"in two":  {[]string{"cat,dog", "-1,7"}, []string{"1.tar", `the label of "b" is the number 7`, "0.tar are texts"}},
		"in both": {[]string{"-1,3", "dog"}, []string{"0.tar", `"b" is the number 3`, "1.tar are texts"}},
		"a half":  {[]string{"cat,0.5"}, []string{`"0.5"`, "whole number"}},
		"below":   {[]string{"-2"}, []string{`"-2"`}},
		"bytes":   {[]string{"\xff\xd8"}, []string{"UTF-8"}},
	} {
		dir := t.TempDir()
		for i, list := range c.shards {
			write(t, filepath.Join(dir, fmt.Sprintf("%d.tar", i)), labelled(t, 'a', "cls", strings.Split(list, ",")...))
		}
		_, err := Open(t.Context(), dir, Options{NoCache: true})
		if !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", what, err)
			continue
		}
		for _, says := range c.says {
			if !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v, want %q", what, err, says)
			}
		}
	}
}

// TestTextsInClasses: where all shards have one list of classes with all texts,
// these are its indexes.
func TestTextsInClasses(t *testing.T) {
	with := func(classes, label string) []byte {
		return pack(t, entry{name: labels.ClassesMember, content: classes}, entry{name: label + ".cls", content: label})
	}
	const list = `["zebra","dog","cat","dog"]`
	for what, c := range map[string]struct {
		shards []string // classes and label
		want   string
	}{
		"in the list":     {[]string{list, "dog", list, "cat"}, "cat:2=cat dog:1=dog"},
		"not all in it":   {[]string{list, "dog", list, "bee"}, "bee:0=bee dog:1=dog"},
		"different lists": {[]string{list, "dog", `["dog","cat"]`, "cat"}, "cat:0=cat dog:1=dog"},
		"no list":         {[]string{`{}`, "dog", `{}`, "cat"}, "cat:0=cat dog:1=dog"},
	} {
		dir := t.TempDir()
		for i := 0; i < len(c.shards); i += 2 {
			write(t, filepath.Join(dir, fmt.Sprintf("%d.tar", i)), with(c.shards[i], c.shards[i+1]))
		}
		if got := classOf(open(t, dir, Options{NoCache: true})); got != c.want {
			t.Errorf("%s: %s, want %s", what, got, c.want)
		}
	}
}

// TestTooManyTexts: captions are no classes, in one shard or in all together.
func TestTooManyTexts(t *testing.T) {
	long := strings.Repeat("x", labels.MaxText+1)
	if _, err := scanned(t, labelled(t, 'a', "cls", long), cls); !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "(--label)") {
		t.Error(err)
	}
	list := classList{texts: make([]bool, 3)}
	for i := range 3 {
		x := &index{texts: make([]string, labels.MaxClasses/2)}
		for k := range x.texts {
			x.texts[k] = fmt.Sprintf("%d of %d", k, i)
		}
		x.samples = []sample{{label: 5}}
		err := list.add(i, x)
		if (err != nil) != (i == 2) || i == 2 && (!errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "captions")) {
			t.Errorf("shard %d: %v", i, err)
		}
		if i < 2 && (x.samples[0].label != int32(5+i*labels.MaxClasses/2) || x.texts != nil) {
			t.Errorf("shard %d: %+v", i, x.samples)
		}
	}
}

// TestTextsInIndexFile: texts are kept, and what cannot be texts of labels is
// damaged.
func TestTextsInIndexFile(t *testing.T) {
	x, err := scanned(t, labelled(t, 'a', "cls", "dog", "cat", "", "a\x00b\nc"), cls)
	if err != nil {
		t.Fatal(err)
	}
	again, err := decodeIndex(x.encode("k"), "k", x.size)
	if err != nil || !reflect.DeepEqual(again, x) || len(x.texts) != 3 {
		t.Fatalf("%+v, %v; want %+v", again, err, x)
	}
	for what, texts := range map[string][]string{
		"too few": {"a", "b"}, "not sorted": {"b", "a", "c"}, "twice": {"a", "a", "b"}, "empty": {"", "a", "b"},
		"long": {"a", "b", strings.Repeat("x", labels.MaxText+1)},
	} {
		x.texts = texts
		if _, err := decodeIndex(x.encode("k"), "k", x.size); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
