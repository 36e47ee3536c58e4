package lines

import "testing"

func TestMakeRoom(t *testing.T) {
	for _, c := range []struct {
		have, more, text int
		todo             int64
		least, most      int
	}{
		{0, 400, 100, 1000, 4080, 4500}, // the whole file
		{4080, 0, 100, 1000, 4080, 4500},
		{4080, 600, 100, 100, 4680, 8500},
	} {
		data := MakeRoom(make([]byte, c.have), c.more, c.text, c.todo)
		if len(data) != c.have || cap(data) < c.least || cap(data) > c.most {
			t.Errorf("%+v: %d of %d", c, len(data), cap(data))
		}
	}
}
