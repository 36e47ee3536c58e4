// Package kvcache is a paged KV cache with prefix caching. [Cache] keeps the books: which
// block of memory holds the keys and values of which tokens of which sequence, and which
// blocks have to be copied. [Pages] is the memory, and makes the copies; a program that has
// memory of its own needs the books alone.
//
//	c, err := kvcache.New(kvcache.Options{Blocks: 4096, HostBlocks: 16384})
//	p, err := kvcache.OpenPages(ctx, c, engine, kvcache.PagesOptions{Pool: pool, Pinned: host, BlockBytes: 2 << 20})
//
//	s, err := c.Open("tenant", prompt)                // ErrFull: wait until others end, or preempt one
//	err = p.Copy(ctx, stream, c.TakeCopies(nil))
//	// Queue on stream: prefill from token s.Cached() on, with the block table s.Table().
//	err = s.Computed(s.Len())                         // others find these blocks from now on
//	for !done {
//		err = s.Append(token)                         // room for one token more
//		err = p.Copy(ctx, stream, c.TakeCopies(nil))
//		// Queue on stream: decode.
//		err = s.Computed(s.Len())
//	}
//	s.Close()
//
// # One scheduler
//
// A cache and its sequences are for one goroutine at a time, the scheduler's, and for one
// stream. What the books say holds for work that is queued after the copies, in the order of
// the calls: a block that is let go is given to the next sequence while the device still reads
// it, which is right since what writes it is queued behind. Programs that call from several
// goroutines need one lock around a call, its copies and the launch.
//
// # Blocks
//
// Memory is blocks of Options.BlockTokens tokens, with all layers in them, numbered from 0 on
// the device and again on the host. A sequence has a table of blocks. Token i is in block
// i/BlockTokens of the table, in slot i%BlockTokens. The only waste is the empty part of the
// last block (Kwon et al., Efficient Memory Management for Large Language Model Serving with
// PagedAttention, 2023).
//
// # Sharing
//
// A block that is full and computed can be found by its content: its tokens and all tokens
// before them. Sequences of a tenant that begin alike share these blocks; other tenants never
// see them. The blocks of a tenant are a tree, as in SGLang's RadixAttention (Zheng et al.,
// 2023), which is searched by hash; the tokens themselves are then compared. So equal tokens
// have to mean equal keys and values: give requests with another adapter, or other images
// behind the same placeholder tokens, another tenant name. [Cache.Reset] is for new weights.
//
// Blocks are copied on write: [Sequence.Fork] shares all of them, and a block that others have
// is copied when a token is appended to it.
//
// # Eviction
//
// Blocks of closed sequences stay until their room is needed. Then the block that is worth
// least is evicted, and never one before those that continue it: by default the least recently
// used one, and with Options.Cost, the one that is cheapest to compute again, aged by
// GreedyDual (Young, 1994). With HostBlocks, it is swapped out to the host first, and back in
// when a sequence begins with it; room on the host is shared by all tenants. The copies come
// before the next kernel on the stream.
//
// To preempt a sequence, close it, and open it with all of its tokens later: its full blocks
// are then still there, if nobody has needed the room, and those that are not are computed
// again. To pin a prefix, keep a sequence open that ends with it.
//
// # Windows
//
// With Options.Window, blocks that no later token attends to are let go as tokens are
// computed. Give long prompts in chunks: Open with the first, then Append and Computed.
package kvcache
