package shard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
)

// classesName is the member that names the classes, the first of each shard
// that [Writer] makes: a JSON array of strings, in which the number in cls is an
// index. WebDataset's readers pass over names of this kind.
const classesName = "__classes__"

// maxClassesBytes bounds that member.
const maxClassesBytes = 16 << 20

// encodeClasses returns the content of the member, nil for no names.
func encodeClasses(names []string, shardBytes int64) ([]byte, error) {
	if len(names) == 0 {
		return nil, nil
	}
	content, err := json.Marshal(names)
	switch {
	case err != nil:
		return nil, err
	case len(content) > maxClassesBytes:
		return nil, fmt.Errorf("%w: the names of %d classes take %d bytes, the limit is %d", ErrTooLarge, len(names), len(content), maxClassesBytes)
	case int64(len(content)) > shardBytes/2:
		return nil, fmt.Errorf("%w: the names of %d classes take %d bytes of each shard, which may have %d", ErrArgument, len(names), len(content), shardBytes)
	}
	return content, nil
}

// decodeClasses returns the names in a member, nil where there are none. A
// member of that name may be somebody else's.
func decodeClasses(content []byte) (names []string) {
	if json.Unmarshal(content, &names) != nil {
		return nil
	}
	return names
}

// classList is what shards say of their classes: the content that all of them
// have. It keeps one, so that any number of others takes no memory.
type classList struct {
	mu      sync.Mutex
	begun   bool
	differ  bool
	content []byte // nil: none, or they differ
}

// add takes in the content of a shard, nil for none.
func (c *classList) add(content []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.begun {
		c.begun, c.content = true, content
	}
	if c.differ = c.differ || !bytes.Equal(content, c.content); c.differ {
		c.content = nil
	}
}

// commonClasses returns the names that all shards have, if they are names for all
// labels.
func (s *Set) commonClasses(list *classList) []string {
	if s.opts.Label != defaultLabel || s.opts.LabelField != "" {
		return nil
	}
	names := decodeClasses(list.content)
	for _, d := range s.shards {
		if slices.ContainsFunc(d.index.samples, func(x sample) bool { return int(x.label) >= len(names) }) {
			return nil
		}
	}
	return names
}

// Classes returns the names of the classes, to which labels are indexes: those
// that [WriterOptions].Classes put into the shards. It is nil where a shard has
// none or other ones, where labels are not those of the member cls, and where
// one has no name. It asks for nothing: the names come with the indexes.
func (s *Set) Classes() []string { return slices.Clone(s.classes) }

// Classes returns the names of the classes, as [Set.Classes] does.
func (v *View) Classes() []string { return v.set.Classes() }
