package flags

import (
	"errors"
	"math"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/pflag"
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
	return strings.Replace(strings.ReplaceAll(humanize.IBytes(uint64(*s)), " ", ""), ".0", "", 1)
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
	n, err := humanize.ParseBytes(text)
	if err != nil || n == 0 || n > math.MaxInt64 {
		return 0, errors.New("must be a size such as 64MiB or 1GiB")
	}
	return int64(n), nil
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
