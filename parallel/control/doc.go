// Package control connects the ranks of a run to each other, to meet, to agree, and to
// hear of each other's end. It carries small messages only: tensors travel by NCCL or
// MPI, which can neither say why a run has ended nor end it everywhere.
//
//	world, err := launch.FromEnv()
//	…
//	run, err := control.Join(ctx, control.Options{World: world}) // when all are there
//	…
//	defer run.Close()
//	if err := run.Agree(ctx, "the model", digest); err != nil {
//		return err // "ranks disagree on the model: ranks 0-2 have 1a2b, rank 3 has 99ff"
//	}
//	ids, err := run.Exchange(ctx, "NCCL's id", id) // of each rank
//	…
//	select {
//	case <-run.Done():
//		return run.Err() // "rank 3 (host b, pid 71): out of memory"
//	case err := <-trained:
//		if err != nil {
//			run.Fail(err) // and so all others end
//		}
//	}
//
// # The end of a rank
//
// [Group.Done] is closed on every rank, and [Group.Err] names the rank, its host, its
// process and the reason, when a rank
//
//   - calls [Group.Fail];
//   - ends without a word, as one that is killed or crashes: its connection ends;
//   - hangs as a whole process (SIGSTOP, a host that swaps), or its host cannot be
//     reached: it gives no sign of life for [Options].Lost;
//   - is at another exchange than the others.
//
// The first reason stays, whatever follows from it. A goroutine that hangs, as in a
// collective that another rank never joins, does not stop the signs of life: who waits
// too long asks [Group.Behind], which names the ranks that have begun the fewest
// operations, if they note them with [Group.Progress].
//
// [Group.Close] is how a rank leaves that has finished well. Rank 0 should leave last;
// it waits for the others for as long as Lost.
//
// # Meeting
//
// Rank 0 listens at World.Master, or at one of the 15 ports after it where another
// program holds that; the others try the same ports. If Master names an address of
// this host, only that one is bound. Rank 0 speaks first, so that another program which
// listens at one of these ports is sent nothing, and who connects to it by mistake
// learns within a second or a few that it has to look elsewhere.
//
// Where the launcher names no address, rank 0 makes a [Listener] and tells the others
// by means of its own:
//
//	l, err := control.Listen(ctx)             // on rank 0
//	address := broadcastByMPI(l.Addr())       // to all
//	world.Master = address
//	run, err := control.Join(ctx, control.Options{World: world, Listener: l}) // nil elsewhere
//
// A rank that runs another version of the program, counts other ranks or is there twice
// is refused. While ranks are still waited for, that ends the run on all of them;
// later it is an error of that process alone.
//
// # Not a security boundary
//
// World.Job tells one run from another. It is no secret: rank 0 tells it to whoever
// connects, and nothing is encrypted or signed. Whoever can reach the port and knows the
// protocol can end the run, or take the place of a rank while it joins. Use it in a
// network whose hosts trust each other, as NCCL and MPI have to be. Foreign bytes are
// refused in bounded memory, and do not disturb the run.
//
// # On the wire
//
// A star: each rank has one TCP connection, to rank 0, which answers for all. Both
// directions begin with 8 bytes of magic and a greeting in JSON: protocol, version, job,
// size, rank, name. Then come frames, whose numbers are big-endian:
//
//	kind    1 byte
//	rank    4 bytes, whom it is about
//	number  8 bytes, of an exchange, or of operations
//	what    2 bytes, at most 4,096
//	data    4 bytes, at most 1 MiB
//	what, data
//
// Signs of life go up and down eight times in the time of Lost: two messages for each
// rank, of which those down have what all need to know of the others. An exchange sends
// the bytes of all ranks to each, from rank 0.
package control
