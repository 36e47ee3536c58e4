package texttable

import (
	"math/rand/v2"
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

// Columns are those of a terminal: wide characters take two, combining ones none.
func TestWide(t *testing.T) {
	table := New("TENSOR", ">SIZE", "NOTE")
	table.Add("语言.重み", "1", "宽 宽 宽")
	table.Add("cafe\u0301", "10", "x")
	table.Add("plain", "100")
	compare(t, table.String(), `
TENSOR     SIZE  NOTE
语言.重み     1  宽 宽 宽
café         10  x
plain       100
`)
	if lines := wrap("宽宽 宽宽 宽宽", 12); len(lines) != 2 || lines[0] != "宽宽 宽宽" {
		t.Errorf("%q", lines)
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

func widthOf(t *testing.T, table *Table, width int) string {
	t.Helper()
	var b strings.Builder
	if err := table.WriteWidth(&b, width); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestWidth(t *testing.T) {
	table := New("DEVICE", ">FREE", "CAPABILITIES")
	table.Add("cuda:0", "139 GiB", "pinned mapped managed peer")
	table.Add("host", "1 GiB", "mapped")
	table.Add("x", "1 B", "")
	compare(t, widthOf(t, table, 36), `
DEVICE     FREE  CAPABILITIES
cuda:0  139 GiB  pinned mapped
                 managed peer
host      1 GiB  mapped
x           1 B
`)
	compare(t, widthOf(t, table, 80), table.String())
	compare(t, widthOf(t, table, 0), table.String())
	compare(t, widthOf(t, table, 26), `
DEVICE  cuda:0
  FREE          139 GiB
  CAPABILITIES  pinned
                mapped
                managed
                peer
DEVICE  host
  FREE          1 GiB
  CAPABILITIES  mapped
DEVICE  x
  FREE          1 B
`)
}

// Text is wrapped in all rows, numbers in the heading only, and the widest
// columns first.
func TestNarrow(t *testing.T) {
	table := New("STAGE", "WHERE", ">TOTAL", ">PER SAMPLE", ">BUSY")
	table.Add("read files", "2 workers", "1.38 s", "1.35 ms", "51.4 %")
	table.Line("of which")
	table.Add("  idle (nothing to fill)", "2 workers", "37.4 ms", "36.5 µs")
	compare(t, widthOf(t, table, 56), `
STAGE            WHERE        TOTAL  PER SAMPLE    BUSY
read files       2 workers   1.38 s     1.35 ms  51.4 %
of which
  idle (nothing  2 workers  37.4 ms     36.5 µs
  to fill)
`)
	compare(t, widthOf(t, table, 46), `
STAGE       WHERE      TOTAL      PER    BUSY
                               SAMPLE
read files  2         1.38 s  1.35 ms  51.4 %
            workers
of which
  idle      2        37.4 ms  36.5 µs
  (nothing  workers
  to fill)
`)
}

// Where a space between columns makes it fit, there is one.
func TestOneSpace(t *testing.T) {
	table := New("PATH", "DIRECTION", ">GB/s")
	table.Add("pageable", "host to device", "55.30")
	compare(t, widthOf(t, table, 24), `
PATH     DIRECTION  GB/s
pageable host to   55.30
         device
`)
}

// Without a heading there is nothing to make lists of.
func TestTooNarrow(t *testing.T) {
	table := New("", ">")
	table.Add("live bytes", "1234567890")
	compare(t, widthOf(t, table, 5), `
live  1234567890
bytes
`)
}

type narrow struct {
	strings.Builder
	width int
}

func (n *narrow) LineWidth() int { return n.width }

func TestLiner(t *testing.T) {
	table := New("A", "B")
	table.Add("one", "two three four")
	for _, c := range []struct{ line, width, want int }{{0, 0, 0}, {0, 14, 14}, {14, 0, 14}, {14, 80, 14}, {80, 14, 14}} {
		w := &narrow{width: c.line}
		if err := table.WriteWidth(w, c.width); err != nil {
			t.Fatal(err)
		}
		compare(t, w.String(), table.text(c.want))
	}
	w := &narrow{width: 14}
	if err := table.Write(w); err != nil {
		t.Fatal(err)
	}
	compare(t, w.String(), "A    B\none  two three\n     four\n")
}

// Rows of random words fit whatever width their longest words allow, and lose
// none of them.
func TestAnyWidth(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	words := func() string {
		var list []string
		for range rng.IntN(4) {
			list = append(list, strings.Repeat("x", 1+rng.IntN(6)))
		}
		return strings.Join(list, " ")
	}
	for range 300 {
		columns := 1 + rng.IntN(5)
		head := make([]string, columns)
		for i := range head {
			head[i] = words()
		}
		head[0] += "H"
		table, letters := New(head...), strings.Count(strings.Join(head, ""), "x")
		for range rng.IntN(4) {
			cells := make([]string, 1+rng.IntN(columns))
			for i := range cells {
				cells[i] = words()
			}
			letters += strings.Count(strings.Join(cells, ""), "x")
			table.Add(cells...)
		}
		width := 1 + rng.IntN(60)
		text := widthOf(t, table, width)
		if _, fits := table.widths(width, gap[1:]); !fits {
			continue
		}
		for line := range strings.Lines(text) {
			if n := len(strings.TrimSuffix(line, "\n")); n > width {
				t.Fatalf("a line of %d characters, want %d at most:\n%s", n, width, text)
			}
		}
		if n := strings.Count(text, "x"); n != letters {
			t.Fatalf("%d letters of %d:\n%s", n, letters, text)
		}
	}
}
