// Package linkreport renders what package linkbench measured as one HTML page
// that can be mailed, archived or put on any web server: what
// `pinion bench --report` writes.
//
//	err := linkreport.Render(w, &linkreport.Report{Device: dev.Info(), Bench: measured, …})
//
// The page is one file. Styles and plots are inside it, it runs no script, and
// it asks nothing of the network. It follows the reader's light or dark
// setting, fits a phone, and prints.
//
// A Report is plain data, so that rendering needs no device. Where a path
// could not be measured its parts of the page are left out, and the page says
// why. Figures that cannot be (a rate of infinity, a negative time) are left
// out too.
//
// # The limit of a link
//
// A PCIe link carries payload in packets. The dashed line in the plots is the
// rate on the wire times the share of a packet that is payload:
//
//	32 GT/s x 16 lanes x 128/130 / 8 x 256/(256+24) = 57.6 GB/s
//
// The page shows that line with its numbers. No copy quite reaches it:
// acknowledgements and flow control take a little more.
//
// # Advice
//
// The page ends in advice. Each piece comes from a rule that looks at the
// measurements, says nothing where they do not call for it, and gives the
// numbers behind what it says.
package linkreport
