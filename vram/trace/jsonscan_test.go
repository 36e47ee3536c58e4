package trace

import (
	"encoding/json"
	"testing"
)

// compareWithJSON parses a line with encoding/json and here. Names come out
// the same, and no line passes here alone.
func compareWithJSON(t *testing.T, line string) {
	t.Helper()
	p := jsonLines{strings: interner{}}
	got, err := p.parse([]byte(line))
	if err != nil {
		return // parse may be stricter: it wants types of known keys
	}
	var want map[string]any
	if err := json.Unmarshal([]byte(line), &want); err != nil {
		t.Fatalf("%q was parsed, but: %v", line, err)
	}
	if name, _ := want["name"].(string); name != got.name {
		// null leaves an earlier value alone here, and replaces it there.
		if _, ok := want["name"]; !ok || want["name"] != nil {
			t.Fatalf("%q: name %q, want %q", line, got.name, name)
		}
	}
}

func TestScannerAgainstJSON(t *testing.T) {
	for _, line := range []string{
		`{}`, `{"name":"x"}`, `{"name":"\u00e4\n"}`, `{"a":{"b":[1,2,{"c":"}"}]},"name":"y"}`, `{"a":1e5 , "name" : "z" }`,
		`{"a":tru}`, `{"a":1 2}`, `{"a":[}`, `{"a":"\"}`, `{"a":}`, `{,}`, `{"a"}`, `{"a":1}}`, `{"a":-}`, `{"a":01}`, "{\"a\":\"\x01\"}",
		`{"a":[1,2}`, `{"a":nul}`, `{"name":"x","name":null}`, `{"a":.5}`, `{"\u006eame":"x"}`,
	} {
		compareWithJSON(t, line)
	}
}
