package labels

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/pinion-gpu/pinion/dataset"
)

// Texts numbers distinct texts as they come, within the limits of a set.
type Texts struct {
	numbers map[string]int32
	bytes   int
}

// Number returns the number of a text, a new one if it was not there. It fails
// with [dataset.ErrTooLarge].
func (t *Texts) Number(text string) (int32, error) {
	n, ok := t.numbers[text]
	if ok {
		return n, nil
	}
	if len(t.numbers) == MaxClasses || t.bytes+len(text) > MaxClassesBytes {
		return 0, fmt.Errorf("%w: labels of more than %d different texts or %d bytes, which are the limits; %s",
			dataset.ErrTooLarge, MaxClasses, MaxClassesBytes, captions)
	}
	if t.numbers == nil {
		t.numbers = map[string]int32{}
	}
	n = int32(len(t.numbers))
	t.numbers[text] = n
	t.bytes += len(text)
	return n, nil
}

// Len returns how many texts there are.
func (t *Texts) Len() int { return len(t.numbers) }

// Sorted returns the texts whose numbers are used, and the place of each number
// there.
func (t *Texts) Sorted(used func(n int32) bool) (names []string, places []int32) {
	for text, n := range t.numbers {
		if used(n) {
			names = append(names, text)
		}
	}
	slices.Sort(names)
	places = make([]int32, len(t.numbers))
	for i, text := range names {
		places[t.numbers[text]] = int32(i)
	}
	return names, places
}

// In returns the place of the text of each number among names, the first where
// there are several; false if a text is not there.
func (t *Texts) In(names []string) (places []int32, ok bool) {
	at := Places(names)
	places = make([]int32, len(t.numbers))
	for text, n := range t.numbers {
		if places[n], ok = at[text]; !ok {
			return nil, false
		}
	}
	return places, true
}

// Places returns where each name is, the first place where there are several.
func Places(names []string) map[string]int32 {
	at := make(map[string]int32, len(names))
	for i, name := range slices.Backward(names) {
		at[name] = int32(i)
	}
	return at
}

// ClassesMember is the member of a tar that names the classes: a JSON array of
// strings of at most [MaxClassesBytes]. WebDataset's readers pass over names of
// this kind.
const ClassesMember = "__classes__"

// DecodeClasses returns the names in that member, nil where there are none: a
// member of that name may be somebody else's.
func DecodeClasses(content []byte) (names []string) {
	if json.Unmarshal(content, &names) != nil {
		return nil
	}
	return names
}
