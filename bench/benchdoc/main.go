// Command benchdoc writes the measured tables and curves of the documentation:
// the tables of docs/benchmarks.md and those in README.md and docs/step.md, and the
// curves in docs/guide/tiers.md, whose pictures are in docs/img. Every figure comes from a file
// in bench/results; nothing is computed but medians over epochs and files,
// and quotients, and what was not measured has no row.
//
//	go run ./bench/benchdoc          # write
//	go run ./bench/benchdoc -check   # fail if something is out of date
//	go run ./bench/benchdoc -targets bench/results/FOLDER # what a run has to reach, and what it did
//
// A run is a folder, bench/results/<date>-<machine>/, whose files are told
// apart by content: documents of `pinion bench link --json`, `pinion bench
// processes --json`, `pinion bench managed --json`, `pinion bench tier --json`,
// `pinion bench step --json`,
// `pinion feed --json`, `pinion tune --json`, `pinion devices --json` and `pinion
// replay --json`, of the programs in bench, and files of peers. bench/README.md
// describes the last two and how a run is made.
//
// Text between the lines <!-- results --> and <!-- /results --> is replaced;
// everything else in those documents is written by hand and stays.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

func main() {
	root := flag.String("root", ".", "folder of the module")
	check := flag.Bool("check", false, "write nothing; fail if a document is out of date")
	targets := flag.String("targets", "", "write nothing; print what the run in this folder has to reach")
	flag.Parse()
	if *targets != "" {
		r, err := loadRun(*targets)
		if err != nil {
			fmt.Fprintln(os.Stderr, "benchdoc:", err)
			os.Exit(1)
		}
		r.printTargets(os.Stdout)
		return
	}
	if err := update(*root, *check); err != nil {
		fmt.Fprintln(os.Stderr, "benchdoc:", err)
		os.Exit(1)
	}
}

// update writes the documents below root, or with check compares them.
func update(root string, check bool) error {
	runs, err := loadRuns(filepath.Join(root, "bench", "results"))
	if err != nil {
		return err
	}
	var errs []error
	for _, d := range []struct{ path, text string }{
		{"README.md", comparison(runs)},
		{filepath.Join("docs", "benchmarks.md"), report(runs)},
		{filepath.Join("docs", "guide", "tiers.md"), tierGuide(runs)},
		{filepath.Join("docs", "step.md"), stepGuide(runs)},
	} {
		errs = append(errs, replaceFile(filepath.Join(root, d.path), d.text, check))
	}
	pictures := curves(runs)
	for _, path := range slices.Sorted(maps.Keys(pictures)) {
		errs = append(errs, writeFile(filepath.Join(root, "docs", path), pictures[path], check))
	}
	return errors.Join(errs...)
}

// replaceFile puts text between the markers of a document.
func replaceFile(path, text string, check bool) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	document, err := replace(string(old), text)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return writeFile(path, document, check)
}

// writeFile writes a file that has other text, or none, or with check says so.
func writeFile(path, text string, check bool) error {
	old, err := os.ReadFile(path)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case err == nil && text == string(old):
		return nil
	case check:
		return fmt.Errorf("%s is out of date; go generate ./docs writes it", path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}
