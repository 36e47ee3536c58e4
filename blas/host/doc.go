// Package host multiplies matrices on the processor, for devices that run Go
// functions in their streams: the host backend.
//
// It uses OpenBLAS where that is installed (PINION_LIB_OPENBLAS chooses another
// file with the Fortran interface, such as MKL's libmkl_rt.so, or "off"), and
// else a blocked routine in Go that uses all processors. bfloat16 is widened to
// float32, and C is rounded once.
package host
