package nvml

import "unsafe"

// DriverVersion returns the version of the kernel's driver, such as
// "580.95.05".
func DriverVersion() (string, error) {
	a, err := library()
	if err != nil {
		return "", err
	}
	f := &a.driverVersion
	if err := missing(f); err != nil {
		return "", err
	}
	b := make([]byte, driverVersionBytes)
	if err := check(f, f.Call(uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))); err != nil {
		return "", err
	}
	return cut(b), nil
}

// confidentialState is nvmlConfComputeSystemState_t.
type confidentialState struct {
	environment, feature, devTools uint32
}

const confidentialOn = 1 // NVML_CC_SYSTEM_FEATURE_ENABLED

// Confidential reports whether the GPUs compute confidentially: all that passes
// the link is then encrypted, and copied through bounce buffers. It fails with
// [ErrNotSupported] where the driver knows nothing of that, which is where it is
// off.
func Confidential() (bool, error) {
	a, err := library()
	if err != nil {
		return false, err
	}
	f := &a.confidential
	if err := missing(f); err != nil {
		return false, err
	}
	var s confidentialState
	if err := check(f, f.Call(uintptr(unsafe.Pointer(&s)))); err != nil {
		return false, err
	}
	return s.feature == confidentialOn, nil
}
