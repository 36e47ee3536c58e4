package sharded_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/pinion-gpu/pinion/checkpoint/sharded"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/parallel/local/localtest"
	"github.com/pinion-gpu/pinion/safetensors"
)

// What ranks have saved is, merged, a plain checkpoint of the same values, large ones too.
func TestMerge(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	s := randomState(rng)
	large := make([]byte, 9<<20)
	rand.NewChaCha8([32]byte{1}).Read(large)
	v := s["large"]
	v.Name, v.Type, v.Shape, v.data = "layer.9", safetensors.BF16, []int64{9 << 10, 512}, large
	s[v.Name] = v
	folder := t.TempDir()
	for _, err := range localtest.Run(t, 3, "host:4MiB", func(c parallel.Comm) error {
		return sharded.Save(t.Context(), folder, c, s.pieces(1, c.Rank(), 3), sharded.SaveOptions{})
	}) {
		testkit.OK(t, err)
	}
	ck := testkit.Must(sharded.Open(folder))(t)
	defer ck.Close()
	for _, path := range []string{filepath.Join(t.TempDir(), "all.safetensors"), filepath.Join(t.TempDir(), "all")} {
		testkit.OK(t, ck.Merge(t.Context(), path))
		plain := testkit.Must(safetensors.Open(path))(t)
		if len(plain.Tensors()) != len(s) {
			t.Errorf("%d tensors of %d", len(plain.Tensors()), len(s))
		}
		for _, got := range plain.Tensors() {
			data := make([]byte, got.Bytes)
			testkit.OK(t, safetensors.Read(t.Context(), safetensors.Into{Tensor: got, Memory: data}))
			if !bytes.Equal(data, s[got.Name].data) {
				t.Errorf("%s is another", got.Name)
			}
		}
		testkit.OK(t, plain.Close())
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	testkit.WantError(t, "a context that ended", ck.Merge(ended, filepath.Join(dir, "x.safetensors")), context.Canceled, "sharded: merge "+folder)
	if list := testkit.Must(os.ReadDir(dir))(t); len(list) != 0 {
		t.Errorf("left behind: %v", list)
	}
}
