//go:build !unix

package screen

// notifyResize does nothing: the size is asked for at every drawing.
func notifyResize(chan<- struct{}) (forget func()) { return func() {} }
