package doctor

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

// The table of checks in the documentation is that of the registry. -update writes
// it.
func TestDocs(t *testing.T) {
	const file, begin, end = "../docs/doctor.md", "<!-- checks -->\n", "<!-- /checks -->"
	text := testkit.ReadFile(t, file)
	before, rest, ok1 := strings.Cut(text, begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no %q and %q", file, begin, end)
	}
	var table strings.Builder
	table.WriteString("\n| | check | asks | needs |\n| --- | --- | --- | --- |\n")
	for _, family := range Families {
		title := family
		for _, c := range Checks() {
			if c.Family != family {
				continue
			}
			needs := strings.Join(c.needs, ", ")
			if c.gpu {
				needs = strings.TrimSuffix("a GPU, "+needs, ", ")
			}
			fmt.Fprintf(&table, "| %s | `%s` | %s | %s |\n", title, c.Name, c.Asks, needs)
			title = ""
		}
	}
	want := before + begin + table.String() + "\n" + end + after
	if *update {
		testkit.OK(t, os.WriteFile(file, []byte(want), 0o666))
	} else if text != want {
		t.Errorf("%s is out of date: go generate ./docs", file)
	}
}
