// Package names lists names in messages.
package names

import (
	"cmp"
	"fmt"
	"path"
	"slices"
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

// Closest returns the names that may have been meant by one that is not there,
// the closest first: the same but for the case or the extension, or with few
// letters changed.
func Closest(name string, names []string) []string {
	const most = 3
	type candidate struct {
		name     string
		distance int
	}
	var found []candidate
	lower := strings.ToLower(name)
	for _, other := range names {
		d := distance(lower, strings.ToLower(other))
		if stem := strings.TrimSuffix(lower, path.Ext(lower)); stem != "" && stem == strings.TrimSuffix(strings.ToLower(other), path.Ext(other)) {
			d = min(d, 1)
		}
		if d <= max(1, (len(name)+1)/3) {
			found = append(found, candidate{other, d})
		}
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return cmp.Compare(a.distance, b.distance) })
	var closest []string
	for _, c := range First(found, most) {
		closest = append(closest, c.name)
	}
	return closest
}

// distance is Levenshtein's: how many letters have to be added, left out or
// changed.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
