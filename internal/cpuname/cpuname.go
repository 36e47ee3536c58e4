// Package cpuname tells what processor this machine has.
package cpuname

import (
	"os"
	"runtime"
	"strings"
	"sync"
)

// Name returns the processor's name as the vendor has it, such as "Intel(R)
// Xeon(R) Platinum 8480+", or the architecture where the system does not tell.
var Name = sync.OnceValue(func() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	return parse(string(text))
})

func parse(cpuinfo string) string {
	for line := range strings.Lines(cpuinfo) {
		key, value, _ := strings.Cut(line, ":")
		if strings.TrimSpace(key) == "model name" && strings.TrimSpace(value) != "" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}
