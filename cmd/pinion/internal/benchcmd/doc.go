// Package benchcmd is `pinion bench` with its subcommands: their flags, the JSON
// documents and the text that they print, and the pages that they write. The
// packages collbench, linkbench, managedbench, procbench, stepbench and tierbench
// beside it measure.
package benchcmd
