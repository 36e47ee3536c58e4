package dl

import "golang.org/x/sys/windows"

func open(file string) (uintptr, error) {
	h, err := windows.LoadLibrary(file)
	return uintptr(h), err
}

func symbol(handle uintptr, name string) (uintptr, error) {
	return windows.GetProcAddress(windows.Handle(handle), name)
}
