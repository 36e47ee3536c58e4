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
	if !slices.Contains(c.words, text) {
		return errors.New(mustBeOne(c.words) + suggestion(text, c.words))
	}
	*c.p = text
	return nil
}

// mustBeOne says what a word must be that is none of words.
func mustBeOne(words []string) string {
	const tooMany = 12
	if len(words) > tooMany {
		return fmt.Sprintf("%sone of %d names", mustBe, len(words))
	}
	return mustBe + Or(words)
}

// suggestion asks for the word that was most likely meant; "" if none is like text.
func suggestion(text string, words []string) string {
	if near := Nearest(text, words); near != "" {
		return fmt.Sprintf("; did you mean %s?", near)
	}
	return ""
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
	near := ""
	err := setList(c.p, text, true, &c.changed, func(word string) (string, error) {
		if !slices.Contains(c.words, word) {
			near = suggestion(word, c.words)
			return "", errors.New(mustBeOne(c.words))
		}
		return word, nil
	})
	if err != nil {
		return fmt.Errorf("%w%s", err, near)
	}
	return nil
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
