// Package kvcache keeps a paged KV cache. [Cache] has the books: which block of memory holds
// the keys and values of which tokens of which sequence, and what has to be copied. [Pages] is
// the memory, and makes the copies; a program with memory of its own needs the books alone.
//
//	c, err := kvcache.New(kvcache.Options{Blocks: 4096, HostBlocks: 16384})
//	p, err := kvcache.OpenPages(ctx, c, engine, kvcache.PagesOptions{Pool: pool, Pinned: host, BlockBytes: 2 << 20})
//	s, err := c.Open("tenant", prompt)
//	defer s.Close()
//	err = p.Copy(ctx, stream, c.Copies(nil))
//	                                 // queue: attention over s.Table(), from token s.Cached() on
//	err = s.Computed(s.Len())        // from now on others find these tokens
//	for {
//		err = s.Append(token)        // and so on, a token at a time
//	}
//
// # Blocks
//
// Memory is blocks of Options.BlockTokens tokens, with all layers in them, numbered from 0 on
// the device and again on the host. A sequence has a table of blocks. What of its last block
// is empty is the only waste (Kwon et al., Efficient Memory Management for Large Language
// Model Serving with PagedAttention, 2023).
//
// # Sharing
//
// A block that is full and computed can be found by its content: its tokens and all before
// them. Sequences of a tenant that begin alike share such blocks; those of other tenants never
// see them. The blocks of a tenant are a tree, as in SGLang's RadixAttention (Zheng et al.,
// 2023), that is searched by hashes. Hashes only find; the tokens are compared. A block with
// another reader is copied before it is written to: [Sequence.Fork].
//
// # What leaves
//
// Blocks of sequences that were closed stay, until somebody needs the room. Then the block
// leaves that is worth least, and none before those that continue it: by default the one that
// was not used for longest, and with Options.Cost, also the one that is computed again soonest
// (GreedyDual, Young, 1994). With HostBlocks it goes to the host first, and comes back when a
// sequence begins with it.
//
// # Order
//
// What the books say holds when what was queued before is done: queue the copies, and the work
// that writes and reads blocks, in the order of the calls. [Pages.Copy] puts copies in their
// place on a stream, and has blocks leave and come back at the same time, many scattered ones
// with each call of package transfer.
package kvcache
