//go:build !linux

package pagemem

func adviseHuge([]byte) {}

func populatePages(b []byte) error {
	touchPages(b)
	return nil
}
