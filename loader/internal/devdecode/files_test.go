package devdecode

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"
	"weak"

	"github.com/pinion-gpu/pinion/imaging/nvjpeg"
	"github.com/pinion-gpu/pinion/internal/samplephotos"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// Where much is kept the largest buffers go, and no more than has to.
func TestResetTrims(t *testing.T) {
	for _, c := range []struct {
		caps, lens []int
		most       int
		want       []int
	}{
		{[]int{10, 20, 30}, []int{1, 1, 1}, 60, []int{10, 20, 30}},
		{[]int{10, 20, 30}, []int{1, 1, 1}, 59, []int{0, 20, 10}},
		{[]int{10, 20, 30}, []int{1, 1, 1}, 10, []int{0, 0, 10}},
		{[]int{10, 20, 30}, []int{1, 1, 1}, 0, []int{0, 0, 0}},
		{[]int{10, 20, 30}, []int{8, 12, 10}, 0, []int{10, 20, 30}}, // twice what there was
		{[]int{10, 20, 30}, []int{8, 12, 9}, 0, []int{0, 20, 10}},
		{nil, nil, 0, nil},
	} {
		f := &Files{}
		for i, n := range c.caps {
			f.list = append(f.list, file{content: make([]byte, c.lens[i], n)})
		}
		f.Reset(c.most)
		var left []int
		for _, e := range f.list {
			left = append(left, cap(e.content))
		}
		if fmt.Sprint(left) != fmt.Sprint(c.want) {
			t.Errorf("%+v: %v", c, left)
		}
	}
}

// Buffers that are dropped are free, though their headers were parsed.
func TestResetForgets(t *testing.T) {
	content, err := samplephotos.Photo(1)
	testkit.OK(t, err)
	f := &Files{list: []file{{content: bytes.Clone(content)}}}
	kept := weak.Make(&f.list[0].content[0])
	f.list[0].jpeg, err = nvjpeg.Parse(f.list[0].content)
	testkit.OK(t, err)
	f.Reset(0) // twice what its last batch had may stay
	f.Reset(0)
	runtime.GC()
	if kept.Value() != nil {
		t.Error("the file is still there")
	}
	runtime.KeepAlive(f)
}
