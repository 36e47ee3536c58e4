//go:build !(amd64 || arm64) || noasm

package linger

// Pause is where the caller spins.
func Pause() {}
