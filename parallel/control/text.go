package control

import (
	"fmt"
	"strconv"
	"strings"
)

// ranksText is "rank 3", or "ranks 0-2, 5", of ranks in order.
func ranksText(ranks []int) string {
	var b strings.Builder
	b.WriteString("rank ")
	if len(ranks) > 1 {
		b.Reset()
		b.WriteString("ranks ")
	}
	for i := 0; i < len(ranks); {
		end := i + 1
		for end < len(ranks) && ranks[end] == ranks[end-1]+1 {
			end++
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(strconv.Itoa(ranks[i]))
		if end-i > 1 {
			b.WriteString("-" + strconv.Itoa(ranks[end-1]))
		}
		i = end
	}
	return b.String()
}

// camp is the ranks that say the same.
type camp struct {
	says  string
	ranks []int
}

// camps sorts ranks by what they say, in the order of their first.
func camps(ranks []int, says func(rank int) string) []camp {
	var all []camp
	index := map[string]int{}
	for _, r := range ranks {
		s := says(r)
		i, ok := index[s]
		if !ok {
			i = len(all)
			index[s] = i
			all = append(all, camp{says: s})
		}
		all[i].ranks = append(all[i].ranks, r)
	}
	return all
}

// campsText is "ranks 0-2 VERB a, rank 3 VERB b".
func campsText(all []camp, one, several string) string {
	const most = 6
	var texts []string
	for i, c := range all {
		if i == most {
			texts = append(texts, fmt.Sprintf("and %d more", len(all)-most))
			break
		}
		verb := one
		if len(c.ranks) > 1 {
			verb = several
		}
		texts = append(texts, fmt.Sprintf("%s %s %s", ranksText(c.ranks), verb, clip(c.says)))
	}
	return strings.Join(texts, ", ")
}

// clip shortens a text for an error.
func clip(text string) string {
	const most = 80
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
