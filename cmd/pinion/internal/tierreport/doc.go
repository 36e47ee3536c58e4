// Package tierreport renders what package tierbench measured as one HTML page: what
// `pinion bench tier --report` writes.
//
//	err := tierreport.Render(w, &tierreport.Report{Device: info, Options: o, Bench: report, …})
//
// A Report is plain data, so that rendering needs no device.
package tierreport
