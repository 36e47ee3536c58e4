// Package checkpoint brings the weights of a model from its .safetensors files
// into device memory, and writes them back.
//
//	ck, err := safetensors.Open("llama/")
//	if err != nil {
//		return err
//	}
//	defer ck.Close()
//	weights, err := checkpoint.Load(ctx, ck, checkpoint.Options{}, checkpoint.Target{Engine: engine})
//	if err != nil {
//		return err
//	}
//	defer weights.Close()
//	head, _ := weights.Find("lm_head.weight") // head.Ptr, head.Shape, head.DType
//
// # How it is fast
//
// Each file gets one allocation, in which its tensors lie as they do in the
// file, but for padding that keeps each aligned. What is contiguous is read in
// one go by [transfer.Engine.ReadFile]: at the speed of the link what is in the
// page cache, and at the speed of the disk the rest. Small tensors that do not
// lie so are read together and spread by one batch. Several parts are under way
// at once, of one file or of several.
//
// # Less than everything
//
// Options.Keep loads a subset. Options.Floats casts on the device, so that the
// link carries what the file holds. With several targets a model is spread over
// devices, whole layers to each ([Layers]), or as Options.Place says. [Stream]
// brings one layer after the other through a few buffers, for a model that does
// not fit; the next ones are on their way while one is at work. Several devices
// take the layers in turn, over all links at once. [LoadStore] puts
// layers into a [tier.Store], for one that is used again and again.
//
// [LoadInto] brings tensors, or parts of them, into memory that another library
// gave.
//
// A checkpoint that does not fit is refused before anything is allocated. After
// an error nothing stays allocated.
package checkpoint
