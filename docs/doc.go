// Package docs holds the documentation: guide.md and tune.md for users,
// architecture.md, vram.md and feed.md for readers of the code, comparison.md,
// benchmarks.md with what was measured, and dependencies.md. Its tests keep the
// text true: the example in README.md compiles and runs, and links lead
// somewhere.
package docs

//go:generate go run ../bench/benchdoc -root ..
