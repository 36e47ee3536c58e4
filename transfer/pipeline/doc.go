// Package pipeline streams a host array or a file through a device in chunks,
// for data that need not fit into the device's memory: while one chunk is
// computed on, the next is copied in and the one before is copied out.
//
//	report, err := pipeline.Run(ctx, engine, pipeline.Pipeline{
//		In: pipeline.Bytes(matrix), Out: pipeline.Bytes(result), ItemBytes: rowBytes,
//		Compute: func(s device.Stream, c pipeline.Chunk) error {
//			return kernel(s, c.Out, c.In, c.InBytes/rowBytes) // queue, do not wait
//		},
//	})
//
// Pinned memory is best: its copies are queued on a stream for each direction,
// ordered with the computing by events, several chunks ahead of the host.
// Everything else (pageable memory, files) is copied by goroutines that call
// the engine, and the host stands between the stages. Each side is chosen on
// its own.
//
// The [Report] says when each chunk was where, how much of the copying was
// hidden behind computing, and how far the run was from the best that its own
// stages allow.
package pipeline
