package nccl

import (
	"os"
	"testing"
	"unsafe"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

// TestABI compares the values that the binding is written with to those of the vendor's
// header, as testdata/abi/abi.c printed them.
func TestABI(t *testing.T) {
	header, err := os.ReadFile("testdata/abi/abi.txt")
	if err != nil {
		t.Skip(err)
	}
	none, unset := int32(noColor), int32(configUnset)
	var c config
	testkit.ABI(t, header, map[string]uintptr{
		"success": success, "invalidArgument": invalidArgument, "invalidUsage": invalidUsage, "inProgress": inProgress,
		"typeI8": typeI8, "typeU8": typeU8, "typeI32": typeI32, "typeU32": typeU32, "typeI64": typeI64, "typeU64": typeU64,
		"typeF16": typeF16, "typeF32": typeF32, "typeF64": typeF64, "typeBF16": typeBF16,
		"opSum": opSum, "opProd": opProd, "opMax": opMax, "opMin": opMin, "opAvg": opAvg,
		"idBytes": idBytes, "noColor": uintptr(uint32(none)),
		"configMagic": configMagic, "configUnset": uintptr(uint32(unset)),
		"config.size": unsafe.Offsetof(c.size), "config.magic": unsafe.Offsetof(c.magic), "config.version": unsafe.Offsetof(c.version),
		"config.blocking": unsafe.Offsetof(c.blocking), "config.cgaClusterSize": unsafe.Offsetof(c.cgaClusterSize),
		"config.minCTAs": unsafe.Offsetof(c.minCTAs), "config.maxCTAs": unsafe.Offsetof(c.maxCTAs),
		"config.netName": unsafe.Offsetof(c.netName), "config.splitShare": unsafe.Offsetof(c.splitShare),
		"fits(config)": 1, "othersUnset": 1,
	})
}
