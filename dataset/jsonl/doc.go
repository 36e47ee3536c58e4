// Package jsonl reads files of one JSON value a line, with samples and labels from two
// of its fields, into memory.
//
//	lines, err := jsonl.Open(ctx, "train.jsonl", jsonl.Options{Field: "input.tokens", Ragged: true})
//
// Importing it registers the format with [dataset.Open].
package jsonl
