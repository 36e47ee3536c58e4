package names

import (
	"fmt"
	"testing"
)

func TestClosest(t *testing.T) {
	there := []string{"train.npy", "test.npy", "Train", "photos", "labels.csv", "a"}
	for name, want := range map[string]string{
		"train.npz": "[train.npy Train]", "tarin.npy": "[train.npy]", "fotos": "[photos]", "TRAIN": "[Train train.npy]",
		"labels": "[labels.csv]", "nothing-like-it": "[]", "b": "[a]", ".npy": "[]",
	} {
		if got := fmt.Sprint(Closest(name, there)); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func TestListed(t *testing.T) {
	if got := Listed(make([]string, 10)); got != `"", "", "", "", "", "", "", "" and 2 more` {
		t.Error(got)
	}
	if got := Listed(nil); got != "none" {
		t.Error(got)
	}
}
