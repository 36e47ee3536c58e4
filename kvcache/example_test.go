package kvcache_test

import (
	"fmt"

	"github.com/pinion-gpu/pinion/kvcache"
)

// Two requests begin with the same prompt: the second computes only what is new.
func Example() {
	c, err := kvcache.New(kvcache.Options{BlockTokens: 4, Blocks: 8})
	if err != nil {
		fmt.Println(err)
		return
	}
	ask := func(tokens ...int32) {
		s, err := c.Open("tenant", tokens)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer s.Close()
		fmt.Printf("%d of %d tokens are there, in blocks %v\n", s.Cached(), s.Len(), s.Table())
		// Here the keys and values of the others are computed and written, and then of each new
		// token.
		_ = s.Computed(s.Len())
		for _, token := range []int32{50, 51, 52} {
			if err := s.Append(token); err != nil {
				fmt.Println(err)
				return
			}
			_ = s.Computed(s.Len())
		}
	}
	ask(1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
	ask(1, 2, 3, 4, 5, 6, 7, 8, 99)
	fmt.Printf("%.0f %% of what was asked for was there\n", 100*c.Stats().Hits())
	// Output:
	// 0 of 10 tokens are there, in blocks [0 1 2]
	// 8 of 9 tokens are there, in blocks [0 1 3]
	// 42 % of what was asked for was there
}
