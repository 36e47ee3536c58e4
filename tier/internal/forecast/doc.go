// Package forecast says how far away the next use of an array is: from the order
// of uses that somebody announced (Order), or from the uses so far (Reuse).
//
// Distances are in bytes: of all that is used until then. So arrays of different
// sizes are compared by what really passes through the device meanwhile.
package forecast
