// Package chunks reads Parquet files: the footer, and columns of row groups
// ("column chunks"), page by page.
//
// It reads what is foreign within bounds. No list of a footer makes room for
// more elements than it has bytes, pages are decompressed into as many bytes as
// they claim and no more, and what a page claims counts against a budget before
// it is allocated.
//
// The format: https://github.com/apache/parquet-format
package chunks
