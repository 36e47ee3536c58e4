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
	if slices.Contains(c.words, text) {
		*c.p = text
		return nil
	}
	what := "must be " + Or(c.words)
	if near := Nearest(text, c.words); near != "" {
		what += fmt.Sprintf("; did you mean %s?", near)
	}
	return errors.New(what)
}

func (c *choice) values() []string { return c.words }

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
