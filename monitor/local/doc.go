// Package local lets a process show its monitor's snapshot to other programs of the
// same user on the same machine, such as pinion top, and finds the processes that do.
//
// A program offers its snapshot with one line:
//
//	stop, err := local.Offer(ctx, local.Options{})
//
// Others find it without knowing anything of it:
//
//	list, err := local.Processes()
//	for _, p := range list {
//		s, err := p.Snapshot(ctx)
//		…
//	}
//
// The commands of pinion that run long and the Python package offer theirs by
// themselves; a Go program that says nothing opens no socket.
//
// # The socket
//
// Each process has a Unix socket in a folder of its user's, named by the process's
// number, start time and PID namespace. The folder is the first of these that can be
// used, and all of them are searched, since the programs of one user do not all have
// the same environment:
//
//	$XDG_RUNTIME_DIR/pinion
//	/run/user/UID/pinion
//	/tmp/pinion-UID
//	$TMPDIR/pinion-UID
//
// The environment variable PINION_TOP names another folder instead, such as one that
// containers share, or is "off": then nothing is offered, nor looked for.
//
// Only its user may enter the folder; one that is somebody else's, or open to others,
// is refused ([ErrUnsafe]). Both ends also ask the system who is at the other one,
// on Linux and macOS. Sockets that killed processes left behind are removed by
// whoever comes next.
//
// # What is served
//
// HTTP, to be read only: GET /snapshot is a [monitor.Snapshot] as JSON. Keys may be
// added to it; the header Pinion-Api has a number that rises when one changes its
// meaning, and a reader refuses a number that it does not know ([ErrVersion]). So old
// and new versions understand each other.
//
//	curl --unix-socket /run/user/1000/pinion/4711-*.sock http://pinion/snapshot
//
// Readers cannot hold the process up: there are at most 32 connections, slow ones are
// cut off, and a snapshot serves all who ask within a twentieth of a second.
package local
