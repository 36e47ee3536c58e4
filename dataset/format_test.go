package dataset_test

import (
	"context"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// opened is what the format "defaults" was opened with last.
var opened struct {
	length int
	names  []string
	given  bool
}

func init() {
	dataset.Register(dataset.Format{
		Name: "defaults",
		Options: []dataset.Option{
			{Name: "defaults-length", Kind: dataset.Int, Default: "8"},
			{Name: "defaults-names", Kind: dataset.List, Default: "x,y"},
		},
		Sniff: func(at *dataset.Location) dataset.Confidence {
			if strings.HasSuffix(at.Path(), ".defaults") {
				return dataset.Likely
			}
			return dataset.NoMatch
		},
		Open: func(_ context.Context, _ *dataset.Location, values dataset.Values) (dataset.Dataset, error) {
			opened.length, opened.names, opened.given = values.Int("defaults-length"), values.List("defaults-names"), values.Given("defaults-length")
			return dataset.NewMemoryOf([]uint8{1}, nil, dataset.MemoryOptions{})
		},
	})
}

// TestOptionDefaults: an option that is not given has its default.
func TestOptionDefaults(t *testing.T) {
	for _, c := range []struct {
		options dataset.Options
		length  int
		given   bool
	}{{nil, 8, false}, {dataset.Options{"defaults-length": 3}, 3, true}, {dataset.Options{"defaults-length": "0"}, 0, true}} {
		_, err := dataset.Open(t.Context(), "a.defaults", c.options)
		testkit.OK(t, err)
		if opened.length != c.length || opened.given != c.given || strings.Join(opened.names, " ") != "x y" {
			t.Errorf("%v: %+v", c.options, opened)
		}
	}
}

// TestRegisterBadDefault: a default that is no value of its option is a mistake
// of the program.
func TestRegisterBadDefault(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	dataset.Register(dataset.Format{
		Name:    "bad default",
		Options: []dataset.Option{{Name: "length", Kind: dataset.Int, Default: "many"}},
		Sniff:   func(*dataset.Location) dataset.Confidence { return dataset.NoMatch },
		Open: func(context.Context, *dataset.Location, dataset.Values) (dataset.Dataset, error) {
			return nil, nil
		},
	})
}
