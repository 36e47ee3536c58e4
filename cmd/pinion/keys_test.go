package main

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

// Of all documents, a key is of one type: that of a plural noun may be a count or a
// list, but in one document it is one of them.
func TestKeysHaveOneType(t *testing.T) {
	photos := makePhotos(t, 6)
	everywhere := map[string]map[string]string{} // key, type, command
	for _, args := range [][]string{
		{"feed", photos, "--size", "8", "--batch", "2"},
		{"tune", photos, "--size", "8", "--batch", "2,3", "--workers", "1,2", "--budget", "1s", "--fresh"},
		{"devices"}, {"version"}, {"doctor", "--only", "libraries,numa"},
		{"replay", "../../vram/trace/testdata/torch-2.11.pickle"},
		{"bench", "link", "--size", "64KiB", "--repeats", "1"},
		{"bench", "collectives", "--to", "64B", "--repeats", "1"},
	} {
		r := pinion(t, append(args, "--json")...)
		var document any
		if err := json.Unmarshal([]byte(r.stdout), &document); err != nil {
			t.Errorf("%q: %v, %s", args, err, r.stderr)
			continue
		}
		here := map[string]map[string]string{}
		noteTypes(here, args[0], document)
		for key, types := range here {
			if len(types) > 1 {
				t.Errorf("%s: %q is of several types: %q", args[0], key, slices.Sorted(maps.Keys(types)))
			}
			if !strings.HasSuffix(key, "s") {
				noteAll(everywhere, key, types)
			}
		}
	}
	for key, types := range everywhere {
		if len(types) > 1 {
			t.Errorf("%q is of several types: %q", key, types)
		}
	}
	if len(everywhere) < 50 {
		t.Errorf("only %d keys", len(everywhere))
	}
}

// noteTypes notes the types of all keys in a document.
func noteTypes(in map[string]map[string]string, command string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			kind := ""
			switch value.(type) {
			case nil:
				continue
			case map[string]any:
				kind = "object"
			case []any:
				kind = "list"
			case float64:
				kind = "number"
			case string:
				kind = "text"
			case bool:
				kind = "truth"
			}
			noteAll(in, key, map[string]string{kind: command})
			noteTypes(in, command, value)
		}
	case []any:
		for _, value := range v {
			noteTypes(in, command, value)
		}
	}
}

func noteAll(in map[string]map[string]string, key string, types map[string]string) {
	if in[key] == nil {
		in[key] = map[string]string{}
	}
	maps.Copy(in[key], types)
}
