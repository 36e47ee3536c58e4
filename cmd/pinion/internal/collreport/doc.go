// Package collreport renders what package collbench measured as one HTML page: what
// `pinion bench collectives --report` writes.
//
//	err := collreport.Render(w, &collreport.Report{Device: info, Bench: report, …})
//
// A Report is plain data, so that rendering needs no ranks.
package collreport
