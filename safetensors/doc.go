// Package safetensors reads and writes the files that models are kept in: the
// .safetensors format, and checkpoints of several such files with an index.
// It knows the format and the host only; package checkpoint brings tensors into
// device memory.
//
//	ck, err := safetensors.Open("llama/") // or a file, several files, or an index
//	if err != nil {
//		return err
//	}
//	defer ck.Close()
//	for _, t := range ck.Tensors() {
//		fmt.Println(t.Name, t.DType, t.Shape, t.Bytes)
//	}
//
// [Read] reads tensors into memory that the caller gives; [Tensor.Range] is a part
// of a tensor, for what needs no more. [Create] and [CreateFolder] write.
//
// # The format
//
// A file is the length of the header in eight little-endian bytes, the header, a
// JSON object, and the data:
//
//	{"__metadata__": {"format": "pt"},
//	 "lm_head.weight": {"dtype": "BF16", "shape": [32000, 4096], "data_offsets": [0, 262144000]}}
//
// Offsets count from the end of the header. A large model is a folder of such
// files, the shards, and an index, model.safetensors.index.json, which says
// where each tensor is.
//
// # What is checked
//
// Files come from strangers, so everything is checked before a header is
// handed out, in the order of the reference implementation
// (https://github.com/huggingface/safetensors): the length of the header against
// 100 MB and the size of the file; UTF-8; JSON, without a key that stands twice;
// the type and the shape of each tensor, whose size may not overflow; and that
// the tensors cover the data without a hole, an overlap or a trailing byte. A
// header takes memory in proportion to its length, which the file really has;
// for that, a shape has at most 64 dimensions here.
package safetensors
