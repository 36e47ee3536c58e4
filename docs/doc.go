// Package docs holds the documentation: guide/ and tune.md for users,
// architecture.md, vram.md and feed.md for readers of the code, comparison.md,
// benchmarks.md with what was measured, and dependencies.md. Its tests keep the
// text true: the example in README.md compiles and runs, the table of formats is
// that of the registry, and links lead somewhere.
package docs

//go:generate go run ../bench/benchdoc -root ..
//go:generate go test -run TestFormats -update
//go:generate go test ../doctor -run TestDocs -update
