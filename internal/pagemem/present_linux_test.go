package pagemem

import "testing"

func TestPresent(t *testing.T) {
	page := int(pageSize)
	b, err := Map(8 * pageSize)
	if err != nil {
		t.Fatal(err)
	}
	defer Unmap(b)
	check := func(what string, part []byte, want int) {
		t.Helper()
		if got, known := Present(part); !known || got != int64(want) {
			t.Errorf("%s: %d bytes present (known: %t), want %d", what, got, known, want)
		}
	}
	check("untouched", b, 0)
	check("nothing", nil, 0)
	b[2*page], b[3*page], b[7*page] = 1, 1, 1
	check("three pages", b, 3*page)
	check("parts of two pages", b[2*page+100:3*page+10], page-100+10)
	check("the end of one and an untouched one", b[4*page-1:4*page+50], 1)
	check("the last byte", b[8*page-1:], 1)
}
