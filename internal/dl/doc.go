// Package dl opens C libraries at run time and calls their functions, without
// cgo. A binding is a table: a struct of [Func] fields and a list of [Symbol]s
// that says which name goes into which field and which of them may be missing.
//
//	type api struct{ initialise, version dl.Func }
//
//	func open() (*api, error) {
//		var a api
//		_, err := dl.Open(dl.Library{
//			Name:  "nvml",
//			Files: []string{"libnvidia-ml.so.1"},
//			Symbols: []dl.Symbol{
//				{Name: "nvmlInit_v2", Func: &a.initialise},
//				{Name: "nvmlSystemGetDriverVersion", Func: &a.version, Optional: true},
//			},
//		})
//		return &a, err
//	}
//
// # Choosing the file
//
// The environment variable PINION_LIB_NAME, NAME being the library's name in
// capitals, overrides where a library is looked for: a path, or "off" to act
// as if it were not installed.
//
// # Pointers
//
// Arguments are uintptr. A Go pointer goes in as
// uintptr(unsafe.Pointer(&x)) inside the argument list of [Func.Call] itself,
// which keeps x alive and in place for the call; a C function must not keep
// it for longer.
package dl
