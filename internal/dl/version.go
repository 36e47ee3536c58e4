package dl

import "fmt"

// VersionText is major, minor and patch of a version as NVIDIA's libraries number
// them: 130002 is 13.0.2, and 801 is 0.8.1.
func VersionText(v int) string {
	return fmt.Sprintf("%d.%d.%d", v/10000, v/100%100, v%100)
}
