// Package shmem is memory that several processes map: a file without a name
// (a memfd, on Linux only) or a file by name on a shared-memory file system.
// Bytes in it are plain host memory to everybody who maps it; a process that
// wants its device to copy from it at full speed locks the pages itself.
//
//	f, err := shmem.CreateAnonymous("frames", size)
//	mem, err := shmem.Map(f, size)    // pagemem.Unmap gives it back
//	unlock, err := shmem.Lock(f)      // against the other processes
//	mem[0]++
//	unlock()
//	err = shmem.Close(f)
//
// A file by name appears whole or not at all: [Create] makes it without its
// name, and [Draft.Publish] gives it the name when it is filled in.
//
// # Locks
//
// [Lock] is a POSIX record lock: it goes away with its process, however that
// ends, and does not travel with a descriptor that is passed on, as flock's
// would. Its price is that a process loses it when it closes any descriptor
// of the file; [Lock] and [Close] keep out of each other's way, so close these
// files with [Close].
//
// On systems other than Linux and macOS everything here fails with
// [errors.ErrUnsupported].
package shmem
