package parallel

import "context"

// Beside is a group of the same ranks for operations that wait for other ranks beside
// computation. On GPUs they take few multiprocessors meanwhile, and longer. Where the
// library has no such groups, or operations use no multiprocessors, Beside returns c. Close
// another one before c. All ranks call it, as [Comm].Split.
func Beside(ctx context.Context, c Comm) (Comm, error) {
	if b, ok := c.(interface {
		Beside(context.Context) (Comm, error)
	}); ok {
		return b.Beside(ctx)
	}
	return c, nil
}
