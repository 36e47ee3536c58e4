package dataset

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Format is a kind of dataset that [Open] can open. A package of a format
// registers it by [Register] when it is imported; package all imports those of
// this module.
type Format struct {
	// Name is short and unique: "npy".
	Name string
	// Title names the format in messages: "NumPy array".
	Title string
	// Files says what it is stored in: ".npy", or "folder of .jpg, .png".
	Files string
	// Samples says what a sample is: "one element of the first axis".
	Samples string

	// Folder are the ends of the names of the files that make a folder a
	// dataset of this format, with the dot and in lower case. Nil: it is none
	// of folders.
	Folder []string
	// Options are what [Options] may have for this format.
	Options []Option

	// Sniff says how sure it is that there is such a dataset at a place. The
	// format that is the surest opens it.
	Sniff func(at *Location) Confidence
	// Open opens what is at a place. All values are those of Options.
	Open func(ctx context.Context, at *Location, values Values) (Dataset, error)
}

// Confidence is how sure a [Format] is that something is a dataset of it.
type Confidence int

const (
	// NoMatch: it is something else.
	NoMatch Confidence = iota
	// Possible: nothing speaks against it, as of a text of numbers.
	Possible
	// Likely: its names or its first line say so.
	Likely
	// Certain: it begins as files of this format alone do.
	Certain
	// Asked: an option that only this format has was given.
	Asked
)

var formats struct {
	sync.RWMutex
	list []Format
}

// Register makes a format known to [Open]. It is called by an init function. It
// panics if there is a format of that name already, if one of the functions is
// missing, or if an option's default is no value of the option: those are mistakes
// of the program.
func Register(f Format) {
	formats.Lock()
	defer formats.Unlock()
	if f.Name == "" || f.Sniff == nil || f.Open == nil {
		panic(fmt.Sprintf("dataset: format %q without a name, Sniff or Open", f.Name))
	}
	for _, o := range f.Options {
		if o.Default == "" {
			continue
		}
		if _, err := o.typed(o.Default); err != nil {
			panic(fmt.Sprintf("dataset: format %q: the default of option %q: %v", f.Name, o.Name, err))
		}
	}
	at, taken := slices.BinarySearchFunc(formats.list, f, func(a, b Format) int { return cmp.Compare(a.Name, b.Name) })
	if taken {
		panic(fmt.Sprintf("dataset: two formats %q", f.Name))
	}
	f.Title = cmp.Or(f.Title, f.Name)
	formats.list = slices.Insert(formats.list, at, f)
}

// Formats returns the registered formats, by name.
func Formats() []Format {
	formats.RLock()
	defer formats.RUnlock()
	return slices.Clone(formats.list)
}

// FormatTable returns the registered formats as a table in Markdown: files,
// samples, and the names of the options.
func FormatTable() string {
	var b strings.Builder
	b.WriteString("| format | files | a sample | options |\n|---|---|---|---|\n")
	for _, f := range Formats() {
		var options []string
		for _, o := range f.Options {
			if o.Kind != Func {
				options = append(options, "`"+o.Name+"`")
			}
		}
		fmt.Fprintf(&b, "| `%s`: %s | %s | %s | %s |\n", f.Name, f.Title, f.Files, f.Samples, strings.Join(options, " "))
	}
	return b.String()
}
