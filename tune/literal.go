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
	return fmt.Sprintf("loader.Options{Batch: %d, Workers: %d, Prefetch: %d, Pin: %s%s}", s.Batch, s.Workers, s.Prefetch, pin, decode)
}

// PyTorch returns the line that sets up a DataLoader most alike. There
// prefetch_factor counts batches for each worker, since a worker makes whole
// batches; two is the least with which it need not stop when one is done. Where
// samples are decoded is not a matter of the DataLoader there.
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
