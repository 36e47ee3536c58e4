package flags

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Choice adds a flag for one of several words to set.
func Choice(set *pflag.FlagSet, p *string, name, value string, words []string, usage string) {
	*p = value
	set.Var(&choice{p, words}, name, usage)
}

type choice struct {
	p     *string
	words []string
}

func (c *choice) String() string {
	if c.p == nil {
		return ""
	}
	return *c.p
}

func (c *choice) Type() string { return "name" }

func (c *choice) Set(text string) error {
	word, err := oneOf(text, c.words)
	if err == nil {
		*c.p = word
	}
	return err
}

// oneOf is text if it is one of words.
func oneOf(text string, words []string) (string, error) {
	if slices.Contains(words, text) {
		return text, nil
	}
	what := "must be " + Or(words)
	const tooMany = 12
	if len(words) > tooMany {
		what = "is none of the names"
	}
	if near := Nearest(text, words); near != "" {
		what += fmt.Sprintf("; did you mean %s?", near)
	}
	return "", errors.New(what)
}

func (c *choice) values() []string { return c.words }

// Choices adds a flag for some of several words, separated by commas, to set.
func Choices(set *pflag.FlagSet, p *[]string, name string, words []string, usage string) {
	set.Var(&choices{p: p, words: words}, name, usage)
}

type choices struct {
	p       *[]string
	words   []string
	changed bool
}

func (c *choices) String() string {
	if c.p == nil {
		return ""
	}
	return strings.Join(*c.p, ",")
}

func (c *choices) Type() string { return listType("name", true) }

func (c *choices) Set(text string) error {
	return setList(c.p, text, true, &c.changed, func(word string) (string, error) { return oneOf(word, c.words) })
}

func (c *choices) values() []string { return c.words }

// Text adds a flag for any text to set, with values to complete it by.
func Text(set *pflag.FlagSet, p *string, name, value, usage string, values func() []string) {
	*p = value
	set.Var(&text{p, values}, name, usage)
}

type text struct {
	p     *string
	offer func() []string
}

func (t *text) String() string {
	if t.p == nil {
		return ""
	}
	return *t.p
}

func (t *text) Type() string { return "string" }

func (t *text) Set(value string) error {
	*t.p = value
	return nil
}

func (t *text) values() []string { return t.offer() }

// Or lists words as in "a, b or c".
func Or(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}
