//go:build !invariants

package replay_test

const poisons = false
