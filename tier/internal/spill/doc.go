// Package spill keeps pieces of memory in files: the last tier of package tier.
//
//	store, err := spill.Open(spill.Options{Folders: []string{"/nvme0", "/nvme1"}, Bytes: 1 << 40})
//	piece, err := store.Alloc(n)
//	err = store.Write(ctx, piece, memory) // in one place or several, each on a page
//	err = store.Read(ctx, piece, memory)
//	store.Free(piece)
//
// One file in each folder holds a stripe of every large piece, so that disks work
// together. Reads and writes go past the page cache (O_DIRECT) in parts, several at
// once. Where the file system cannot do that they go through the cache.
//
// # Files
//
// The files take their room on the disk when the store is opened, where the file
// system can do that, so a full disk is found then. They hold nothing that outlives
// the process, so they lose their names at once, and the system frees them when the
// process ends, however it ends. What a process left that was killed before that, and
// where open files keep their names, is recognised by a lock that nobody holds any
// more, and removed by the next store in that folder.
package spill
