// Package staging moves bytes between the host and a device through pinned
// slots, by several copiers at once.
//
// A copy is cut into chunks. Each copier has a ring of slots and a stream: it
// fills a slot, queues its transfer and goes on with the next slot while the
// link works on the first. The goroutine that asks for a copy is one of the
// copiers; helpers join it.
package staging
