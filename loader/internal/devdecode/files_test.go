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
		f := new(Decoder).NewFiles(0)
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

// Workers take what was left to the device, of the batch that they name, from the back,
// until it is claimed; who waits for them sees what they made of it.
func TestTake(t *testing.T) {
	d := &Decoder{}
	f, one, two := d.NewFiles(5), new(int), new(int)
	if _, ok := f.Take(one); ok {
		t.Error("taken before it was offered")
	}
	for _, slot := range []int{0, 2, 3} {
		f.list[slot].onDevice = true
	}
	f.Offer(one, 4)
	if _, ok := f.Take(two); ok || f.Offered(two) {
		t.Error("taken of another batch")
	}
	for _, want := range []int{3, 2} {
		if slot, ok := f.Take(one); slot != want || !ok || !f.Offered(one) {
			t.Fatalf("%d, %v, want %d", slot, ok, want)
		}
	}
	f.Claim()
	if _, ok := f.Take(one); ok || f.Offered(one) {
		t.Error("taken after it was claimed")
	}
	done := make(chan struct{})
	go func() {
		f.Took(2, nil)
		f.Took(3, ErrRefused)
		close(done)
	}()
	f.Wait()
	<-done
	for slot, want := range []file{{onDevice: true}, {}, {}, {lost: true}, {}} {
		if e := f.list[slot]; e.onDevice != want.onDevice || e.lost != want.lost {
			t.Errorf("slot %d: %+v", slot, e)
		}
	}
	f.list[4].onDevice = true
	f.Offer(two, 5)
	f.Reset(0)
	if _, ok := f.Take(two); ok {
		t.Error("taken after Reset")
	}
}
