package parallel

import (
	"errors"
	"fmt"
	"strings"
)

// LongestText is how many bytes of a text [Texts] tells others.
const LongestText = 4096

// Texts are short texts of all ranks, by rank, each up to its first zero byte and no
// longer than [LongestText]. All ranks call it; each needs that much device memory for each
// rank, and one that has not got it fails alone, so that who runs the ranks has to abort.
func Texts(c Comm, text string) (_ []string, err error) {
	if c.Size() == 1 {
		return []string{cut(text)}, nil
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("parallel: texts of ranks: %w", err)
		}
	}()
	dev := c.Device()
	s, err := dev.NewStream()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	all := make([]byte, LongestText*c.Size())
	p, err := dev.Alloc(int64(len(all)))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dev.Free(p)) }()
	mine := make([]byte, LongestText)
	copy(mine, cut(text))
	own := p.Add(int64(LongestText * c.Rank()))
	if err := s.CopyH2D(own, mine); err != nil {
		return nil, err
	}
	if err := c.AllGather(s, Part{Recv: p, Send: own, N: LongestText}); err != nil {
		return nil, err
	}
	if err := errors.Join(s.CopyD2H(all, p), s.Synchronize()); err != nil {
		return nil, err
	}
	texts := make([]string, c.Size())
	for i := range texts {
		texts[i] = cut(string(all[i*LongestText:][:LongestText]))
	}
	return texts, nil
}

// cut is what Texts tells of a text.
func cut(text string) string {
	text, _, _ = strings.Cut(text, "\x00")
	return strings.ToValidUTF8(text[:min(len(text), LongestText)], "")
}

// FirstError is the same failure on all ranks: nil if err is nil on all of them, and else
// an error with the first rank that has one and its text. On that rank it wraps err. All
// ranks call it.
func FirstError(c Comm, err error) error {
	text := ""
	if err != nil {
		text = "!" + err.Error()
	}
	texts, failed := Texts(c, text)
	if failed != nil {
		return errors.Join(err, failed)
	}
	for i, text := range texts {
		switch {
		case text == "":
		case i == c.Rank():
			return fmt.Errorf("rank %d: %w", i, err)
		default:
			return fmt.Errorf("rank %d: %s", i, text[1:])
		}
	}
	return nil
}
