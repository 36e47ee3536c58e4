//go:build !unix

package screen

const canStop = false

func stop() {}
