// Package ntcopy copies memory past the caches, by non-temporal stores.
//
// What a copy writes is then not in this processor's cache, which is what two
// cases want: a staging slot that only a copy engine will read, whose reads
// are slow while lines are dirty in some core's cache, and a large
// destination, of which an ordinary copy would first read what it is about to
// overwrite. Where the destination is read again at once, the built-in copy is
// better.
package ntcopy
