package shard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/pinion-gpu/pinion/dataset/internal/labels"
)

// encodeClasses returns the content of the member, nil for no names.
func encodeClasses(names []string, shardBytes int64) ([]byte, error) {
	if len(names) == 0 {
		return nil, nil
	}
	content, err := json.Marshal(names)
	switch {
	case err != nil:
		return nil, err
	case len(content) > labels.MaxClassesBytes:
		return nil, fmt.Errorf("%w: the names of %d classes take %d bytes, the limit is %d", ErrTooLarge, len(names), len(content), labels.MaxClassesBytes)
	case int64(len(content)) > shardBytes/2:
		return nil, fmt.Errorf("%w: the names of %d classes take %d bytes of each shard, which may have %d", ErrArgument, len(names), len(content), shardBytes)
	}
	return content, nil
}

// classList is what shards say of their classes: the names that all of them have,
// and the texts that are labels. It keeps each once, so that any number of shards
// takes no more memory.
type classList struct {
	mu      sync.Mutex
	begun   bool
	differ  bool
	content []byte // of the member that names the classes; nil: none, or they differ

	named labels.Texts
	texts []bool // of each shard, whether its labels are texts
}

// add takes over what the index of shard i has of classes. Labels that are texts
// become numbers in the list.
func (c *classList) add(i int, x *index) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.begun {
		c.begun, c.content = true, x.classes
	}
	if c.differ = c.differ || !bytes.Equal(x.classes, c.content); c.differ {
		c.content = nil
	}
	numbers := make([]int32, len(x.texts)) // of each text, in the list
	for k, text := range x.texts {
		var err error
		if numbers[k], err = c.named.Number(text); err != nil {
			return err
		}
	}
	if c.texts[i] = len(x.texts) > 0; c.texts[i] {
		x.renumber(numbers)
	}
	x.classes, x.texts = nil, nil
	return nil
}

// renumber puts other numbers in the place of labels.
func (x *index) renumber(numbers []int32) {
	for i, s := range x.samples {
		if s.label >= 0 {
			x.samples[i].label = numbers[s.label]
		}
	}
}

// commonClasses returns the names to which labels are indexes. Where labels are
// texts, it makes them such indexes: to the names that all shards have, if every
// text is there, and else to the sorted texts.
func (s *Set) commonClasses(list *classList) ([]string, error) {
	names := labels.DecodeClasses(list.content)
	if list.named.Len() == 0 {
		if !labels.NewSource(s.opts.Label, s.opts.LabelField).Default() {
			return nil, nil
		}
		for _, d := range s.shards {
			if slices.ContainsFunc(d.index.samples, func(x sample) bool { return int(x.label) >= len(names) }) {
				return nil, nil
			}
		}
		return names, nil
	}
	places, ok := list.named.In(names)
	if !ok {
		names, places = list.named.Sorted(func(int32) bool { return true })
	}
	for i, d := range s.shards {
		if list.texts[i] {
			d.index.renumber(places)
			continue
		}
		if n := slices.IndexFunc(d.index.samples, func(x sample) bool { return x.label >= 0 }); n >= 0 {
			return nil, fmt.Errorf("%s: %w: the label of %.200q is the number %d, and labels of %s are texts; want one kind in all shards",
				d.name, ErrFormat, d.index.key(n), d.index.samples[n].label, s.shards[slices.Index(list.texts, true)].name)
		}
	}
	return names, nil
}

// Classes returns the names of the classes, to which labels are indexes. Where
// labels are texts, they are the sorted texts of all shards. Otherwise, or where
// they have all these texts, they are those that [WriterOptions].Classes put into
// the shards: nil where a shard has none or other ones, where labels are not those
// of the member cls, and where one has no name. It asks for nothing: the names come
// with the indexes.
func (s *Set) Classes() []string { return slices.Clone(s.classes) }

// Classes returns the names of the classes, as [Set.Classes] does.
func (v *View) Classes() []string { return v.set.Classes() }
