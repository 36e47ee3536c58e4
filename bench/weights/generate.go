package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/pinion-gpu/pinion/safetensors"
)

// model describes a language model of about n bytes: blocks as those of Llama 2
// 7B, or smaller ones where n is small. The head takes what is left, so that
// there are n bytes, rounded to a row.
func model(n int64) []safetensors.Tensor {
	hidden, mlp := int64(4096), int64(11008)
	for hidden > 64 && n < 8*hidden*hidden*2*10 {
		hidden, mlp = hidden/2, mlp/2
	}
	var tensors []safetensors.Tensor
	add := func(name string, shape ...int64) {
		bytes := int64(2)
		for _, d := range shape {
			bytes *= d
		}
		n -= bytes
		tensors = append(tensors, safetensors.Tensor{Name: name, DType: safetensors.BF16, Shape: shape})
	}
	add("model.embed_tokens.weight", 8*hidden, hidden)
	add("model.norm.weight", hidden)
	block := 2 * (4*hidden*hidden + 3*hidden*mlp + 2*hidden)
	for i := 0; n > 2*block; i++ {
		name := func(part string) string { return fmt.Sprintf("model.layers.%d.%s.weight", i, part) }
		for _, part := range []string{"q", "k", "v", "o"} {
			add(name("self_attn."+part+"_proj"), hidden, hidden)
		}
		add(name("mlp.gate_proj"), mlp, hidden)
		add(name("mlp.up_proj"), mlp, hidden)
		add(name("mlp.down_proj"), hidden, mlp)
		add(name("input_layernorm"), hidden)
		add(name("post_attention_layernorm"), hidden)
	}
	add("lm_head.weight", max(n/2/hidden, 1), hidden)
	return tensors
}

// generate writes a model of bytes that no disk can compress.
func generate(ctx context.Context, folder string, n int64) error {
	w, err := safetensors.CreateFolder(folder, model(n), safetensors.WriterOptions{ShardBytes: 1 << 62, Metadata: map[string]string{"format": "pt"}})
	if err != nil {
		return err
	}
	defer w.Discard() // which does nothing after Commit
	tensors := w.Tensors()
	errs := make([]error, runtime.GOMAXPROCS(0))
	var next atomic.Int64
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			for errs[i] == nil {
				at := int(next.Add(1)) - 1
				if at >= len(tensors) || ctx.Err() != nil {
					return
				}
				errs[i] = w.WriteFrom(tensors[at].Name, random(at))
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return w.Commit()
}

// random is an endless stream of bytes, another one for each seed. It hides what
// io.Copy would do without a buffer.
func random(seed int) io.Reader {
	return struct{ io.Reader }{rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})}
}
