// Package spans hands out the room of an address space, in as many pieces as it
// takes: so room in pieces is room too. Package tier keeps host memory and files
// with it.
package spans
