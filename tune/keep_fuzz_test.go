package tune

import (
	"encoding/json"
	"testing"
)

// A file that somebody else wrote is refused, or gives a result that can be
// printed.
func FuzzKept(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte) {
		k, err := parseKept(data)
		if err != nil {
			return
		}
		r := k.Result
		if len(r.Why()) == 0 || r.Best.Go() == "" || r.Best.PyTorch() == "" {
			t.Error("nothing to say")
		}
		for _, row := range r.Settings {
			r.Model.Stepped(row.Setting)
		}
		if _, err := json.Marshal(k); err != nil {
			t.Error(err)
		}
	})
}
