package cli

// LostError is the error of a file that a run was to leave behind. A person reads of
// it after an interrupt, too, which hides what else goes wrong then.
type LostError struct{ error }

// Unwrap returns what went wrong.
func (e *LostError) Unwrap() error { return e.error }

// Lost makes a LostError of an error, and nil of nil.
func Lost(err error) error {
	if err == nil {
		return nil
	}
	return &LostError{err}
}

// AllLost are the LostErrors in err.
func AllLost(err error) (list []error) {
	switch e := err.(type) {
	case *LostError:
		return []error{e}
	case interface{ Unwrap() []error }:
		for _, each := range e.Unwrap() {
			list = append(list, AllLost(each)...)
		}
	case interface{ Unwrap() error }:
		return AllLost(e.Unwrap())
	}
	return list
}
