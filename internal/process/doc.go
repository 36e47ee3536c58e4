// Package process tells processes apart for longer than their numbers do. A
// process number is used again once its process is gone, so an [ID] holds the
// start time as well; together they name one process since the system booted.
// That is what a table in shared memory needs to find the entries of processes
// that were killed before they could take them out.
//
//	id, err := process.Self() // written where others see it
//	if !id.Alive() {          // asked by the others, at any later time
//		// whatever it held can be taken over
//	}
package process
