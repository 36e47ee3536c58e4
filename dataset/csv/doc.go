// Package csv reads files of rows of numbers, and their labels, into memory.
//
//	rows, err := csv.Open(ctx, "iris.csv", csv.Options{Label: "species"})
//
// Importing it registers the format with [dataset.Open].
package csv
