// Package directio reads and writes pieces of files the fastest way: what is
// in the page cache from there, at the speed of memory, and the rest past it,
// by O_DIRECT, which costs no second copy and does not push out what others
// have in the cache.
//
//	f, err := directio.Open(file, directio.Options{})
//	defer f.Close()                         // file stays the caller's
//	data, err := f.Read(slot, offset, n)    // a part of slot
//
// Reads by O_DIRECT need aligned memory, offsets and lengths. [File.Read]
// therefore takes memory with some room, reads the aligned range around the
// piece, and returns where in the memory the piece is. Memory from package
// pagemem of whole pages, and pieces that end at multiples of its size, always
// fit.
//
// # What is in the cache
//
// A read with RWF_NOWAIT takes what is there and stops. But on a miss the
// kernel reads ahead, in competition with the O_DIRECT read that follows. So as
// long as pieces are missing, mincore is asked first. (It answers only those who
// own the file or may write it. Others read one page, which makes the kernel
// read little more than that.)
//
// # Fallbacks
//
// File systems without O_DIRECT, or without RWF_NOWAIT, and systems other than
// Linux, are read and written through the page cache. [File.Notes] tells.
package directio
