package jsonl

import (
	"bytes"
	"context"
	"fmt"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/lines"
	"github.com/pinion-gpu/pinion/dataset/internal/listing"
)

func init() {
	dataset.Register(dataset.Format{
		Name:    "jsonl",
		Title:   "JSON lines",
		Files:   "text with a JSON object or array in each line",
		Samples: "the numbers of a line, or of one field of it; ragged, where lines differ in length",
		Options: []dataset.Option{dataset.FieldOption(), dataset.LabelOption()},
		Sniff: func(at *dataset.Location) dataset.Confidence {
			if begins(at.Head(), at.Whole()) {
				return dataset.Likely
			}
			if at.Head() != nil && (document(at.Head()) || listing.HasExtension(at.Path(), []string{".json", ".jsonl", ".ndjson"})) {
				return dataset.Possible // opening it says what is wrong
			}
			return dataset.NoMatch
		},
		Open: func(ctx context.Context, at *dataset.Location, values dataset.Values) (dataset.Dataset, error) {
			if document(at.Head()) {
				return nil, fmt.Errorf("%s: %w: one JSON document; want an object or an array in each line. jq -c '.[]' makes lines of a list", at.Path(), dataset.ErrFormat)
			}
			return Open(ctx, at.Path(), Options{Field: values.Text("field"), Label: values.Text("label"), Ragged: true})
		},
	})
}

// document reports whether a file that begins like that is one JSON document: a
// list of objects, or what is spread over lines.
func document(head []byte) bool {
	head = bytes.TrimSpace(bytes.TrimPrefix(head, []byte(lines.ByteOrderMark)))
	if len(head) == 0 || head[0] != '[' && head[0] != '{' {
		return false
	}
	inside := bytes.TrimLeft(head[1:], " \t\r")
	return bytes.HasPrefix(inside, []byte("\n")) || head[0] == '[' && bytes.HasPrefix(inside, []byte("{"))
}
