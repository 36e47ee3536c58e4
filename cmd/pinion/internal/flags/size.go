package flags

import (
	"errors"
	"strings"

	"github.com/spf13/pflag"

	"github.com/pinion-gpu/pinion/internal/units"
)

// Size adds a flag for a number of bytes, such as 1GiB, to set.
func Size(set *pflag.FlagSet, p *int64, name string, value int64, usage string) {
	*p = value
	set.Var((*size)(p), name, usage)
}

type size int64

func (s *size) String() string {
	if *s == 0 {
		return ""
	}
	return units.ExactBytes(int64(*s))
}

func (s *size) Type() string { return "size" }

func (s *size) Set(text string) error {
	n, err := parseSize(text)
	if err == nil {
		*s = size(n)
	}
	return err
}

func parseSize(text string) (int64, error) {
	n, err := units.ParseBytes(text)
	if err != nil {
		return 0, errors.New("must be a size such as 64MiB or 1GiB")
	}
	return n, nil
}

// Sizes adds a flag for sizes, such as 512KiB,2MiB, to set: several where that
// is allowed, else one.
func Sizes(set *pflag.FlagSet, p *[]int64, name string, value []int64, several bool, usage string) {
	*p = value
	set.Var(&sizes{p: p, several: several}, name, usage)
}

type sizes struct {
	p                *[]int64
	several, changed bool
}

func (s *sizes) String() string {
	if s.p == nil {
		return ""
	}
	var text []string
	for _, n := range *s.p {
		text = append(text, (*size)(&n).String())
	}
	return strings.Join(text, ",")
}

func (s *sizes) Type() string { return listType("size", s.several) }

func (s *sizes) Set(text string) error {
	return setList(s.p, text, s.several, &s.changed, parseSize)
}
