// Package cli is what the commands of pinion share: errors of the command line,
// the JSON and the text that they print, progress, the flag for a device and the
// row for its link, and files that are written at the end of a run.
package cli
