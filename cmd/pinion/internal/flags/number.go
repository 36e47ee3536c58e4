package flags

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// Bounds are the least and the most that a number may be, or a word that stands
// for one.
type Bounds struct {
	least, most int
	word        string
	meaning     int // of word
}

// AtLeast allows every number from n on.
func AtLeast(n int) Bounds { return Bounds{least: n, most: math.MaxInt} }

// Between allows the numbers from least to most.
func Between(least, most int) Bounds { return Bounds{least: least, most: most} }

// Or allows a word as well, which stands for a number outside the bounds.
func (b Bounds) Or(word string, meaning int) Bounds {
	b.word, b.meaning = word, meaning
	return b
}

func (b Bounds) parse(text string) (int, error) {
	if b.word != "" && text == b.word {
		return b.meaning, nil
	}
	n, err := b.number(text)
	if err != nil && b.word != "" {
		return 0, fmt.Errorf("%w, or %s", err, b.word)
	}
	return n, err
}

func (b Bounds) number(text string) (int, error) {
	n, err := strconv.Atoi(text)
	switch {
	case err != nil && errors.Is(err, strconv.ErrRange), err == nil && (n < b.least || n > b.most):
		if b.most == math.MaxInt {
			return 0, fmt.Errorf("must be at least %d", b.least)
		}
		return 0, fmt.Errorf("must be from %d to %d", b.least, b.most)
	case err != nil:
		return 0, errors.New("must be a whole number")
	}
	return n, nil
}

// Int adds a flag for a whole number to set.
func Int(set *pflag.FlagSet, p *int, name string, value int, bounds Bounds, usage string) {
	*p = value
	set.Var(&number{p, bounds}, name, usage)
}

type number struct {
	p *int
	Bounds
}

func (n *number) String() string {
	if n.p == nil || *n.p == 0 {
		return ""
	}
	return strconv.Itoa(*n.p)
}

func (n *number) Type() string { return "int" }

func (n *number) Set(text string) error {
	v, err := n.parse(text)
	if err == nil {
		*n.p = v
	}
	return err
}

// Ints adds a flag for whole numbers, such as 4,8,16, to set: several where
// that is allowed, else one.
func Ints(set *pflag.FlagSet, p *[]int, name string, value []int, bounds Bounds, several bool, usage string) {
	*p = value
	set.Var(&numbers{p: p, Bounds: bounds, several: several}, name, usage)
}

type numbers struct {
	p *[]int
	Bounds
	several, changed bool
}

func (n *numbers) String() string {
	if n.p == nil {
		return ""
	}
	var list []string
	for _, v := range *n.p {
		if n.word != "" && v == n.meaning {
			list = append(list, n.word)
		} else {
			list = append(list, strconv.Itoa(v))
		}
	}
	return strings.Join(list, ",")
}

func (n *numbers) Type() string { return listType("int", n.several) }

func (n *numbers) Set(text string) error {
	return setList(n.p, text, n.several, &n.changed, n.parse)
}

// Floats adds a flag for numbers above 0, such as 0.5,2, to set.
func Floats(set *pflag.FlagSet, p *[]float64, name string, value []float64, most float64, usage string) {
	*p = value
	set.Var(&floats{p: p, most: most}, name, usage)
}

type floats struct {
	p       *[]float64
	most    float64
	changed bool
}

func (f *floats) String() string {
	if f.p == nil {
		return ""
	}
	var list []string
	for _, v := range *f.p {
		list = append(list, strconv.FormatFloat(v, 'g', -1, 64))
	}
	return strings.Join(list, ",")
}

func (f *floats) Type() string { return listType("number", true) }

func (f *floats) Set(text string) error {
	return setList(f.p, text, true, &f.changed, func(one string) (float64, error) {
		v, err := strconv.ParseFloat(one, 64)
		if err != nil || !(v > 0 && v <= f.most) {
			return 0, fmt.Errorf("must be above 0 and at most %g", f.most)
		}
		return v, nil
	})
}

// listType is the type of a flag that takes one value or several.
func listType(one string, several bool) string {
	if several {
		return one + ",..."
	}
	return one
}

// setList adds the values in text to a list, of which the default goes first.
func setList[T any](p *[]T, text string, several bool, changed *bool, parse func(string) (T, error)) error {
	var list []T
	for each := range strings.SplitSeq(text, ",") {
		v, err := parse(strings.TrimSpace(each))
		if err != nil && several && each != text {
			return fmt.Errorf("%w, which %q is not", err, each)
		}
		if err != nil {
			return err
		}
		list = append(list, v)
	}
	if !several && len(list) > 1 {
		return errors.New("must be one value")
	}
	if *changed && several {
		list = append(*p, list...)
	}
	*p, *changed = list, true
	return nil
}
