package flags

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Nearest is the word that was most likely meant by one that is none; "" if
// none is like it.
func Nearest(text string, words []string) string {
	best, distance := "", max(len(text)/3, 1)+1
	for _, w := range words {
		d := editDistance(strings.ToLower(text), strings.ToLower(w))
		if len(text) >= 3 && strings.HasPrefix(w, text) {
			d = min(d, 1)
		}
		if d < distance {
			best, distance = w, d
		}
	}
	return best
}

// editDistance is how many letters have to be put in, left out, replaced or
// swapped with the next one to make b of a (the optimal string alignment
// distance).
func editDistance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range len(b) + 1 {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			d := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				d++
			}
			d = min(d, rows[i-1][j]+1, rows[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(a)][len(b)]
}

// NearestCommand is the subcommand of cmd that was most likely meant; "" if
// none is like it.
func NearestCommand(cmd *cobra.Command, name string) string {
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return Nearest(name, names)
}

// nearestFlag is the flag of cmd that was most likely meant; "" if none is like
// it.
func nearestFlag(cmd *cobra.Command, name string) string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	slices.Sort(names)
	return Nearest(name, names)
}
