// Package nvrtc compiles CUDA C++ for a GPU while a program runs, by NVIDIA's
// NVRTC where that is installed (it comes with the CUDA toolkit and with
// PyTorch), and keeps what it compiled on disk.
//
//	image, err := nvrtc.Compile(nvrtc.Source{Name: "add.cu", Text: text, Arch: info.ComputeCapability})
//	module, err := launcher.LoadModule(image)
//
// Sources include no headers: there may be none where a program runs.
package nvrtc
