// Package window runs a model over images and volumes in overlapping windows, as
// sliding_window_inference of MONAI does, without ever holding the whole volume or the whole
// result: both go by in slabs along the first axis.
//
//	p, err := window.NewPlan([]int{384, 384, 384}, window.Options{
//		Window: []int{128, 128, 128}, Overlap: []float64{0.5}, Blend: window.Gaussian, Batch: 4,
//	})
//	err = p.Run(ctx, 1, volume, predict, result)
//
// A [Source] gives rows of the first axis, a [Sink] takes them as soon as no window touches
// them any more. [Array] is either in memory, and Volume and Writer of package dataset/nifti
// are in files. Memory is that of one window's rows of input and output: p.Bytes.
//
// A model is a function, or a session of package step ([Model]): while that runs on the
// device, the host makes the next windows and adds up the last predictions. [Plan.Labels]
// makes a map of labels of classes.
//
// # What is computed
//
// Windows begin at multiples of (1 - overlap) of their size; the last of each axis is moved
// back to end with the volume. An axis that is shorter than the window is padded on both
// sides, and the result cropped. Predictions are added up with weights, all the same or a
// Gaussian around the middle of the window, and divided by the sum of weights. Windows,
// weights and the order of sums are those of MONAI, and so are the results, but for the last
// bits of exponentials.
package window
