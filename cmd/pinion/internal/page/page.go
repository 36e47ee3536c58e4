package page

import (
	"bytes"
	_ "embed"
	"html/template"
	"io"

	"github.com/pinion-gpu/pinion/internal/plot"
)

//go:embed parts.html.tmpl
var partsText string

//go:embed style.css
var styleText string

// Head is what the head of a page shows. The data of a page embeds it.
type Head struct {
	Style       template.CSS
	Title       string
	Description string
}

// Style is the style sheet of all pages with what one adds.
func Style(more string) template.CSS { return template.CSS(styleText + more) }

// Parse makes a template that can use the parts "head" (of the page's data),
// "tiles" (of a list of [Tile]), "legend" (of [LegendRow]), "tables" (of
// [Table]) and "foot". It panics on a text that is none: it is embedded.
func Parse(text string) *template.Template {
	parts := template.Must(template.New("parts").Parse(partsText))
	return template.Must(parts.New("page").Parse(text))
}

// Render writes a page. Where the template fails nothing is written.
func Render(w io.Writer, t *template.Template, data any) error {
	var text bytes.Buffer // so that a page is whole or not there
	if err := t.Execute(&text, data); err != nil {
		return err
	}
	_, err := w.Write(text.Bytes())
	return err
}

// Graph is a figure with its heading.
type Graph struct {
	Title string
	Note  string
	SVG   template.HTML
}

// Tile is a headline number, or two of a kind.
type Tile struct {
	Name   string
	Values []TileValue
	Note   string
}

// TileValue is a number of a tile.
type TileValue struct{ Number, Unit, What string }

// Table is a table; the first column names the rows.
type Table struct {
	Title string
	Head  []string
	Rows  [][]Cell
}

// Cell is a number, with a second one under it.
type Cell struct{ Main, Sub string }

// LegendRow explains a series.
type LegendRow struct {
	Mark        template.HTML
	Name, About string
}

// Legend explains a series.
func Legend(s plot.Series) LegendRow { return LegendRow{s.Swatch(), s.Name, s.About} }
