// Package names lists names in messages.
package names

import (
	"fmt"
	"strings"
)

// Listed quotes the first names of a list for a message.
func Listed(names []string) string {
	const most = 8
	var quoted []string
	for _, name := range First(names, most) {
		quoted = append(quoted, fmt.Sprintf("%.80q", name))
	}
	s := strings.Join(quoted, ", ")
	switch more := len(names) - most; {
	case len(names) == 0:
		return "none"
	case more > 0:
		return fmt.Sprintf("%s and %d more", s, more)
	}
	return s
}

// First returns at most the first n of a list.
func First[T any](list []T, n int) []T { return list[:min(n, len(list))] }
