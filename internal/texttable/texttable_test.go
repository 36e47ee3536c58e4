package texttable

import (
	"strings"
	"testing"
)

func compare(t *testing.T, got, want string) {
	t.Helper()
	if want = strings.TrimPrefix(want, "\n"); got != want {
		t.Errorf("\n%s\nwant\n%s", got, want)
	}
}

func TestTable(t *testing.T) {
	table := New("PATH", ">GB/s", "NOTE")
	table.Add("chosen", "1.20", "é")
	table.Add("staged", "12.30")
	table.Add("µs", "4", "ends here")
	compare(t, table.String(), `
PATH     GB/s  NOTE
chosen   1.20  é
staged  12.30
µs          4  ends here
`)
	var b strings.Builder
	if err := table.Write(&b); err != nil || b.String() != table.String() {
		t.Errorf("%v\n%s", err, b.String())
	}
}

func TestWithoutHeading(t *testing.T) {
	table := New("", ">", ">")
	table.Add("live", "1 KiB", "2 KiB")
	table.Line("a line across the columns")
	table.Add("peak", "100 KiB")
	compare(t, table.String(), `
live    1 KiB  2 KiB
a line across the columns
peak  100 KiB
`)
	compare(t, New("", "").String(), "")
	compare(t, New().String(), "")
	compare(t, New("A", ">B").String(), "A  B\n")
}

func TestWidth(t *testing.T) {
	table := New("DEVICE", ">FREE", "CAPABILITIES")
	table.Add("cuda:0", "139 GiB", "pinned mapped managed peer")
	table.Add("host", "1 GiB", "mapped")
	table.Add("x", "1 B", "")
	text := func(width int) string {
		var b strings.Builder
		if err := table.WriteWidth(&b, width); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	compare(t, text(36), `
DEVICE     FREE  CAPABILITIES
cuda:0  139 GiB  pinned mapped
                 managed peer
host      1 GiB  mapped
x           1 B
`)
	compare(t, text(80), table.String())
	compare(t, text(1), text(17+minWrap))
}
