//go:build invariants

package replay_test

// poisons: the pool overwrites what is freed, which takes the memory that a
// large trace only pretends to use.
const poisons = true
