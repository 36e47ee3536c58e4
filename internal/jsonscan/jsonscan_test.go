package jsonscan

import (
	"encoding/json"
	"fmt"
	"testing"
)

// compareWithJSON takes a text apart here and with encoding/json.
func compareWithJSON(t *testing.T, text string) {
	t.Helper()
	got := map[string]any{}
	err := Object([]byte(text), func(key, value []byte) error {
		var v any
		if err := json.Unmarshal(value, &v); err != nil {
			t.Errorf("%q: the value %q: %v", text, value, err)
		}
		got[string(key)] = v
		return nil
	})
	var want map[string]any
	wantErr := json.Unmarshal([]byte(text), &want)
	if want == nil && wantErr == nil {
		return // null is no object here
	}
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("%q: %v here, %v there", text, err, wantErr)
	}
	if err == nil && fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("%q: %v, want %v", text, got, want)
	}
}

var texts = []string{
	`{}`, ` { } `, `{"name":"x"}`, `{"name":"\u00e4\n"}`, `{"a":{"b":[1,2,{"c":"}"}]},"name":"y"}`, `{"a":1e5 , "name" : "z" }`,
	`{"a":tru}`, `{"a":1 2}`, `{"a":[}`, `{"a":"\"}`, `{"a":}`, `{,}`, `{"a"}`, `{"a":1}}`, `{"a":-}`, `{"a":01}`, "{\"a\":\"\x01\"}",
	`{"a":[1,2}`, `{"a":nul}`, `{"a":"x","a":null}`, `{"a":.5}`, `{"\u006eame":"x"}`, `{"a":1,}`, `{"a":1 "b":2}`, `{`, ``, `[]`, `1`,
}

func TestAgainstJSON(t *testing.T) {
	for _, text := range texts {
		compareWithJSON(t, text)
	}
}

func FuzzObject(f *testing.F) {
	for _, text := range texts {
		f.Add(text)
	}
	f.Fuzz(compareWithJSON)
}

func TestStops(t *testing.T) {
	calls := 0
	err := Object([]byte(`{"a":1,"b":2}`), func(key, value []byte) error {
		calls++
		return fmt.Errorf("no %s", key)
	})
	if calls != 1 || err == nil || err.Error() != "no a" {
		t.Errorf("%d calls, %v", calls, err)
	}
}

// Members and Skip walk through valid objects as Object does.
func TestMembers(t *testing.T) {
	for _, text := range append(texts, `{"a":[1,[2,"]"]],"b":{"c":"\\\"}"},"d":-1e3 ,"e":null}`) {
		var want []string
		if Object([]byte(text), func(key, value []byte) error {
			want = append(want, string(key)+"="+string(value))
			return nil
		}) != nil {
			continue
		}
		var got []string
		for key, value := range Members(Trim([]byte(text))) {
			got = append(got, string(key)+"="+string(value[:len(value)-len(Skip(value))]))
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
