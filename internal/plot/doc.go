// Package plot draws lines over sizes, and bars, as SVG: for pages, which bring
// the style, or as a file of its own, which documents show.
//
//	p := plot.Plot{ID: "rate", Title: "copies", YName: "GB/s", XName: "size of a copy", …}
//	p.Add(plot.Line{Series: plot.Series{ID: "pinned", Name: "pinned", Mark: "circle"}, Points: points})
//	svg := p.Draw(800, 360)                     // in a page
//	text := p.File(800, 360, map[string]plot.Colour{"pinned": {Light: "#003f9e", Dark: "#3f94fa"}})
package plot
