// Package tierdoc is the document that `pinion bench tier --json` prints: who writes it
// and who reads it have the same fields, names and lines of curves.
package tierdoc
