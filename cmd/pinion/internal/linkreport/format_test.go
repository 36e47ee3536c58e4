package linkreport

import "testing"

func TestFormat(t *testing.T) {
	for want, got := range map[string]string{
		"55.3": gb(55.327e9), "0.12": gb(0.12e9), "6.9": times(6.94), "10": times(9.96), "11": times(11.1),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
