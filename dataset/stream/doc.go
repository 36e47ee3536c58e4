// Package stream reads samples that come one after the other and no other way:
// tars that are compressed, or that come through a pipe.
//
//	s, err := stream.Open("train.tar.gz", stream.Options{}) // or "-", standard input
//	s = s.Filter(func(r *stream.Record) (bool, error) { return r.Label >= 0, nil }).
//		Shuffle(1000, 7)
//	for r, err := range s.Records(ctx, stream.Position{}) {
//		if err != nil {
//			return err
//		}
//		use(r.Member("jpg"), r.Label)
//	}
//
// A sample is what WebDataset takes for one: the members of a tar that have one
// name up to the first dot, side by side. [Stream.Filter], [Stream.Map],
// [Stream.Take], [Stream.Shard] and [Stream.Shuffle] make streams of streams, as
// in WebDataset and tf.data. They do nothing until somebody reads.
//
// Labels are whole numbers, or text where the tar begins with a member __classes__,
// the JSON array of the names of the classes: a stream cannot know all texts before
// its end. Text without it, or that it has not, is an error.
//
// # Position
//
// A [Position] is an epoch and how many records of it were delivered. A stream is
// a function of its source, so reading from a position delivers the records that
// would have followed. What is before it is read again, since nobody can jump
// into a compressed tar; content that no filter and no shuffle asks for is
// passed over.
//
// # Loading
//
// [NewFiles] makes files of a stream, of which photos.New makes a dataset that
// package loader reads: in order, and by all its workers. What can be opened again
// is read again for each epoch; a pipe comes once.
//
// # Limits
//
// A record is at most [Options].MaxRecordBytes, by what the headers say and
// before memory for it is taken, however well it compresses. A stream holds the
// record that is being read, and a shuffle as many as it was asked to.
package stream
