// Package page has what the report pages of the command share: style, plots,
// tables, tiles, and how numbers are printed.
//
//	var pageTemplate = page.Parse(text) // {{template "head" .}} … {{template "foot"}}
//	err := page.Render(w, pageTemplate, struct{ page.Head; … }{…})
//
// A page is one file. Styles and plots are inside it, it runs no script, and
// it asks nothing of the network. It follows the reader's light or dark
// setting, fits a phone, and prints.
package page
