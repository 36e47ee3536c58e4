// Package tunereport renders what package tune found as one HTML page: what
// `pinion tune --report` writes.
//
//	err := tunereport.Render(w, &tunereport.Report{Dataset: path, Result: result, …})
//
// A Report is plain data, so that rendering needs no device. Figures that
// cannot be (a rate of infinity) are left out.
package tunereport
