// Package samplephotos makes folders of synthetic photos for benchmarks and
// tests that must not download a data set. To a decoder and a resizer they
// are like photos of the usual data sets: JPEGs of 500x375 pixels, quality
// 90, 4:2:0, 40 to 80 KB, with gradients, texture of all scales, edges and a
// little sensor noise. They lie in class folders:
//
//	dir/beach/photo-00001.jpg
//	dir/city/photo-00002.jpg
//	dir/forest/photo-00003.jpg
//	dir/mountain/photo-00004.jpg
//	dir/beach/photo-00005.jpg
//
// Photo k is the same pixels on every machine and whatever the number of
// photos; its bytes are the same for one version of Go's JPEG encoder.
package samplephotos
