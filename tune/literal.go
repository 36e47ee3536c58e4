package tune

import (
	"fmt"
	"strings"
)

// Go returns the setting as a literal of the loader's options.
func (s Setting) Go() string {
	pin := "loader.PinNever"
	if s.Pin {
		pin = "loader.PinAlways"
	}
	decode := ""
	switch s.Decode {
	case "cpu":
		decode = ", Decode: loader.DecodeCPU"
	case "gpu":
		decode = ", Decode: loader.DecodeGPU"
	}
	staging := ""
	if s.Copiers > 0 {
		staging = fmt.Sprintf(", Copiers: %d", s.Copiers)
	}
	if s.ChunkBytes > 0 {
		staging += ", ChunkBytes: " + shifted(s.ChunkBytes)
	}
	return fmt.Sprintf("loader.Options{Batch: %d, Workers: %d, Prefetch: %d, Pin: %s%s%s}", s.Batch, s.Workers, s.Prefetch, pin, staging, decode)
}

// shifted is a size as programs write it: "2 << 20", "512 << 10".
func shifted(n int64) string {
	for _, shift := range []int{20, 10} {
		if n%(1<<shift) == 0 {
			return fmt.Sprintf("%d << %d", n>>shift, shift)
		}
	}
	return fmt.Sprint(n)
}

// PyTorch returns the line that sets up a DataLoader most alike. There
// prefetch_factor counts batches for each worker, since a worker makes whole
// batches; two is the least with which it need not stop when one is done. Its
// workers decode, so for a setting that decodes on the device take
// [Result.PyTorch]. Nothing there stands for copiers.
func (s Setting) PyTorch() string {
	workers := max(s.Workers, 1)
	factor := max(2, (s.Prefetch+workers-1)/workers)
	pin := "False"
	if s.Pin {
		pin = "True"
	}
	return strings.Join([]string{
		fmt.Sprintf("DataLoader(dataset, batch_size=%d", s.Batch), "shuffle=True", fmt.Sprintf("num_workers=%d", s.Workers),
		"pin_memory=" + pin, fmt.Sprintf("prefetch_factor=%d", factor), "persistent_workers=True)",
	}, ", ")
}

// PyTorch returns the line for a DataLoader: of the best setting, or where that
// decodes on the device, which a DataLoader does not, of the fastest that
// decodes in workers.
func (r *Result) PyTorch() string {
	if r.Best.Decode != "gpu" {
		return r.Best.PyTorch()
	}
	best, rate := r.Best, 0.0
	for _, row := range r.Settings {
		each := row.PerSecond
		if row.Trials == 0 {
			each = row.Predicted
		}
		if row.Decode != "gpu" && row.Refused == "" && each > rate {
			best, rate = row.Setting, each
		}
	}
	return best.PyTorch()
}
