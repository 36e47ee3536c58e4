package dataset

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/pinion-gpu/pinion/dataset/internal/names"
)

// Options are options of a [Format] by name. A value is of the type that the
// option's [Kind] says, or the text of one, as a flag of a command has it. What
// options a format has, [Formats] tells; a format without an option that is given
// fails with an [OptionError], unless the value is a function.
//
//	dataset.Open(ctx, "train.csv", dataset.Options{"label": "species"})
//
// Programs that know the format have typed options in its package.
type Options map[string]any

// Option is one option of a [Format].
type Option struct {
	// Name is one word in lower case, or several with "-" between them. Formats
	// give one name to what is one thing to users: [FieldOption], [LabelOption].
	Name string
	Kind Kind
	// Usage says in a phrase what it is for. A word in `quotes` stands for the
	// value, as in package flag.
	Usage string
	// Default is the text of the value where none was given. Default "": the zero
	// value of the kind.
	Default string
	// Values are what can be given, for the completion of shells. Nil: anything.
	Values []string
}

// Kind is the type of an option's value.
type Kind int

const (
	Text  Kind = iota // string
	List              // []string; as text separated by commas
	Int               // int
	Float             // float64
	Bool              // bool
	Shape             // []int; as text with x between them: "128x128x64"
	Func              // a function that the format's documentation describes; it has no text
)

// FieldOption returns the option for the part of a file that holds the samples.
func FieldOption() Option {
	return Option{Name: "field", Usage: "`NAME` of the array, tensor, JSON field or column that holds the samples (default: the only one; of .npz also x, data or arr_0)"}
}

// LabelOption returns the option for the part of a file that holds the labels.
func LabelOption() Option {
	return Option{Name: "label", Usage: "`NAME` of the array, tensor, JSON field, column or member of a tar that holds the labels; for .npy the path of another one; of CSV and Parquet also several separated by commas (default: none; x.labels.npy beside x.npy)"}
}

// OptionError is an option that a format does not have, or whose value is none.
type OptionError struct {
	Option string
	Path   string
	// Format is that of the dataset, and Formats are the titles of those that
	// have the option; nil where no format has.
	Format  string
	Formats []string
	// Err says what is wrong with the value; nil where the format does not have
	// the option.
	Err error
}

// Error implements error.
func (e *OptionError) Error() string {
	switch {
	case e.Err != nil:
		return fmt.Sprintf("%s: option %q: %v", e.Path, e.Option, e.Err)
	case e.Formats == nil:
		var all []string
		for _, f := range Formats() {
			for _, o := range f.Options {
				all = append(all, o.Name)
			}
		}
		if near := names.Closest(e.Option, all); len(near) > 0 {
			return fmt.Sprintf("%s: no format has an option %q; did you mean %q?", e.Path, e.Option, near[0])
		}
		return fmt.Sprintf("%s: no format has an option %q", e.Path, e.Option)
	}
	return fmt.Sprintf("%s: option %q is for %s, and this is %s", e.Path, e.Option, strings.Join(e.Formats, ", "), e.Format)
}

// Unwrap returns Err, and [ErrArgument].
func (e *OptionError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrArgument}
	}
	return []error{ErrArgument, e.Err}
}

// Values are the values of options, each of the type of its kind. What was not
// given is the option's default.
type Values struct {
	path   string
	values map[string]any
	given  Options
}

// Given reports whether an option was given.
func (v Values) Given(name string) bool { return v.given[name] != nil }

// Text returns the value of an option of kind [Text].
func (v Values) Text(name string) string { return value[string](v, name) }

// List returns the value of an option of kind [List].
func (v Values) List(name string) []string { return value[[]string](v, name) }

// Int returns the value of an option of kind [Int].
func (v Values) Int(name string) int { return value[int](v, name) }

// Float returns the value of an option of kind [Float].
func (v Values) Float(name string) float64 { return value[float64](v, name) }

// Bool returns the value of an option of kind [Bool].
func (v Values) Bool(name string) bool { return value[bool](v, name) }

// Shape returns the value of an option of kind [Shape].
func (v Values) Shape(name string) []int { return value[[]int](v, name) }

// Func returns the value of an option of kind [Func], nil if it was not given.
func (v Values) Func(name string) any { return v.values[name] }

// Bad is the error for a value of an option that cannot be.
func (v Values) Bad(name string, err error) error {
	return &OptionError{Option: name, Path: v.path, Err: err}
}

func value[T any](v Values, name string) T {
	t, _ := v.values[name].(T)
	return t
}

// valuesFor checks options for a format and gives each value its type.
func (o Options) valuesFor(f *Format, path string) (Values, error) {
	v := Values{path, map[string]any{}, o}
	for _, option := range f.Options {
		if option.Default != "" {
			v.values[option.Name], _ = option.typed(option.Default) // Register has checked it
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o)) {
		k := slices.IndexFunc(f.Options, func(option Option) bool { return option.Name == name })
		if k < 0 && reflect.ValueOf(o[name]).Kind() == reflect.Func {
			continue // for formats that call it
		}
		if k < 0 {
			return v, &OptionError{Option: name, Path: path, Format: f.Title, Formats: formatsWith(name)}
		}
		typed, err := f.Options[k].typed(o[name])
		if err != nil {
			return v, v.Bad(name, err)
		}
		v.values[name] = typed
	}
	return v, nil
}

// formatsWith returns the titles of the formats that have an option.
func formatsWith(name string) (titles []string) {
	for _, f := range Formats() {
		if slices.ContainsFunc(f.Options, func(o Option) bool { return o.Name == name }) {
			titles = append(titles, f.Title)
		}
	}
	return titles
}

// Check checks a value as text.
func (o Option) Check(text string) error {
	_, err := o.typed(text)
	return err
}

// oneOf lists values: "8, 12 or 16".
func oneOf(values []string) string {
	last := len(values) - 1
	if last < 1 {
		return strings.Join(values, "")
	}
	return strings.Join(values[:last], ", ") + " or " + values[last]
}

// typed returns a value with the type that the kind says.
func (o Option) typed(v any) (any, error) {
	text, isText := v.(string)
	var typed any
	var err error
	switch o.Kind {
	case Text:
		typed = text
		if isText && o.Values != nil && !slices.Contains(o.Values, text) {
			return nil, fmt.Errorf("%q is not %s", text, oneOf(o.Values))
		}
	case List:
		typed = strings.Split(text, ",")
		if list, ok := v.([]string); ok {
			return slices.Clone(list), nil
		}
	case Int:
		if n, ok := v.(int); ok {
			return n, o.among(n)
		}
		var n int
		if n, err = strconv.Atoi(text); err == nil {
			err = o.among(n)
		}
		typed = n
	case Float:
		if n, ok := v.(float64); ok {
			return n, nil
		}
		typed, err = strconv.ParseFloat(text, 64)
	case Bool:
		if b, ok := v.(bool); ok {
			return b, nil
		}
		typed, err = strconv.ParseBool(text)
	case Shape:
		if shape, ok := v.([]int); ok {
			return slices.Clone(shape), nil
		}
		typed, err = ParseShape(text)
	case Func:
		if v == nil || isText {
			return nil, errors.New("want a function")
		}
		return v, nil
	}
	if !isText {
		return nil, fmt.Errorf("a %T, want %s", v, o.Kind)
	}
	if errors.Is(err, strconv.ErrSyntax) || errors.Is(err, strconv.ErrRange) {
		return nil, fmt.Errorf("%q is not a valid %s", text, o.Kind)
	}
	return typed, err
}

// among checks that a number is one of the values, where there are any.
func (o Option) among(n int) error {
	if o.Values != nil && !slices.Contains(o.Values, strconv.Itoa(n)) {
		return fmt.Errorf("%d is not %s", n, oneOf(o.Values))
	}
	return nil
}

// String names the kind in messages.
func (k Kind) String() string {
	return [...]string{"text", "list", "whole number", "number", "truth value", "shape such as 128x128x64", "function"}[k]
}

// ParseShape reads a shape as text: "256x256x3".
func ParseShape(text string) ([]int, error) {
	var shape []int
	for side := range strings.SplitSeq(text, "x") {
		n, err := strconv.Atoi(side)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is not a shape such as 256x256x3", text)
		}
		shape = append(shape, n)
	}
	return shape, nil
}
