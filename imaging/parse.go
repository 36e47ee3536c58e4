package imaging

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// grammar is what errors of ParseTransform show.
const grammar = "want terms joined by commas: " +
	"one of rrc:SIZE, center:SIZE, resize:SIDE,crop:SIZE, stretch:WIDTHxHEIGHT; " +
	"with rrc also scale:LO,HI (parts of the area) and ratio:LO,HI (width by height); " +
	"flip:PROBABILITY; bilinear, bicubic or nearest; jitter:BRIGHTNESS,CONTRAST,SATURATION,HUE"

// ParseTransform reads a transform as users write it, such as
// "rrc:224,flip,jitter" or "resize:256,crop:224,bicubic".
//
//	center:SIZE              CenterCrop(SIZE)
//	resize:SIDE,crop:SIZE    CenterCrop(SIZE).WithShorter(SIDE)
//	stretch:WIDTHxHEIGHT     Stretch(WIDTH, HEIGHT)
//	rrc:SIZE                 RandomResizedCrop(SIZE)
//	scale:LO,HI ratio:LO,HI  WithScale, WithRatio; after rrc
//	flip:P                   WithFlip(P); P is 0.5 if left out
//	bilinear, bicubic, nearest
//	                         WithFilter
//	jitter:B,C,S,H           WithJitter; 0.4,0.4,0.4,0.1 if left out, 0 for
//	                         each one missing at the end
//
// Terms are joined by commas, in any order, each at most once; spaces around
// them are ignored. Where SIZE is left out, and where nothing says what to
// crop, it is size: ParseTransform("", 224) is CenterCrop(224). Errors are
// [ErrArgument] and show what is understood.
func ParseTransform(s string, size int) (Transform, error) {
	t, err := parseTransform(s, size)
	if err == nil {
		err = t.Check()
	}
	if err != nil {
		return Transform{}, fmt.Errorf("transform %.60q: %w", s, err)
	}
	return t, nil
}

func parseTransform(s string, size int) (Transform, error) {
	var t Transform
	terms, err := splitTerms(s)
	if err != nil {
		return t, err
	}
	switch {
	case terms.has("rrc"):
		t = RandomResizedCrop(terms.size("rrc", size))
	case terms.has("stretch"):
		t = Stretch(terms.sides("stretch", size))
	case terms.has("resize") || terms.has("crop"):
		if !terms.has("resize") || !terms.has("crop") {
			return t, fmt.Errorf("%w: resize and crop go together; %s", ErrArgument, grammar)
		}
		t = CenterCrop(terms.size("crop", size)).WithShorter(terms.size("resize", size))
	default:
		t = CenterCrop(terms.size("center", size))
	}
	if terms.has("scale") {
		v := terms.numbers("scale", 2, 2)
		t = t.WithScale(v[0], v[1])
	}
	if terms.has("ratio") {
		v := terms.numbers("ratio", 2, 2)
		t = t.WithRatio(v[0], v[1])
	}
	if terms.has("flip") {
		t = t.WithFlip(terms.numbers("flip", 0, 1, 0.5)[0])
	}
	if terms.has("jitter") {
		v := terms.numbers("jitter", 0, 4, 0.4, 0.4, 0.4, 0.1)
		t = t.WithJitter(Jitter{Brightness: v[0], Contrast: v[1], Saturation: v[2], Hue: v[3]})
	}
	for f := Bilinear; f <= Nearest; f++ {
		if terms.has(f.String()) {
			terms.numbers(f.String(), 0, 0)
			t = t.WithFilter(f)
			break // a second one does not go with it
		}
	}
	return t, terms.finish()
}

// terms holds what is not yet used of a transform's text, by name, and the
// first error.
type terms struct {
	names  []string
	values map[string]string
	used   map[string]bool
	err    error
}

// splitTerms takes s apart. What begins with a digit or a point after a comma
// is one more value of the term before.
func splitTerms(s string) (*terms, error) {
	t := &terms{values: map[string]string{}, used: map[string]bool{}}
	if strings.TrimSpace(s) == "" {
		return t, nil
	}
	name := ""
	for item := range strings.SplitSeq(s, ",") {
		item = strings.TrimSpace(item)
		if name != "" && item != "" && strings.ContainsRune("0123456789.", rune(item[0])) {
			t.values[name] += "," + item
			continue
		}
		var value string
		name, value, _ = strings.Cut(item, ":")
		if _, twice := t.values[name]; twice {
			return nil, fmt.Errorf("%w: %.20q is there twice", ErrArgument, name)
		}
		if len(t.names) == 16 { // more than are understood
			break
		}
		t.names = append(t.names, name)
		t.values[name] = value
	}
	return t, nil
}

func (t *terms) has(name string) bool {
	_, ok := t.values[name]
	if ok {
		t.used[name] = true
	}
	return ok
}

func (t *terms) fail(name, want string) {
	if t.err == nil {
		t.err = fmt.Errorf("%w: %s:%.40q: want %s; %s", ErrArgument, name, t.values[name], want, grammar)
	}
}

// size is the value of a term of one whole number, or missing if it has none.
func (t *terms) size(name string, missing int) int {
	t.has(name)
	value := t.values[name]
	if value == "" {
		return missing
	}
	n, err := strconv.Atoi(value)
	if err != nil {
		t.fail(name, "a whole number of pixels")
	}
	return n
}

// sides is the value of a term WxH, or missing for both.
func (t *terms) sides(name string, missing int) (width, height int) {
	value := t.values[name]
	if value == "" {
		return missing, missing
	}
	w, h, _ := strings.Cut(value, "x")
	width, errW := strconv.Atoi(w)
	height, errH := strconv.Atoi(h)
	if errW != nil || errH != nil {
		t.fail(name, "WIDTHxHEIGHT in pixels")
	}
	return width, height
}

// numbers is the values of a term of least to most numbers: missing ones are
// zero, or those given if it has none at all.
func (t *terms) numbers(name string, least, most int, none ...float64) []float64 {
	list := make([]float64, most)
	value := t.values[name]
	if value == "" && least == 0 {
		copy(list, none)
		return list
	}
	values := strings.Split(value, ",")
	if len(values) < least || len(values) > most {
		t.fail(name, fmt.Sprintf("%d to %d numbers", least, most))
		return list
	}
	for i, v := range values {
		n, err := strconv.ParseFloat(v, 64)
		if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
			t.fail(name, "numbers")
		}
		list[i] = n
	}
	return list
}

// finish is the first error, or one for a term that nobody asked for.
func (t *terms) finish() error {
	for _, name := range t.names {
		if !t.used[name] && t.err == nil {
			t.err = fmt.Errorf("%w: %.20q is unknown or does not go with the rest; %s", ErrArgument, name, grammar)
		}
	}
	return t.err
}

// String returns t as [ParseTransform] reads it, such as
// "rrc:224,flip:0.5" or "center:224".
func (t Transform) String() string {
	var b strings.Builder
	switch {
	case t.crop == cropRandom:
		fmt.Fprintf(&b, "rrc:%d", t.width)
		if t.scale != defaultScale {
			fmt.Fprintf(&b, ",scale:%v,%v", t.scale.lo, t.scale.hi)
		}
		if t.ratio != defaultRatio {
			fmt.Fprintf(&b, ",ratio:%v,%v", t.ratio.lo, t.ratio.hi)
		}
	case t.crop == cropCenter && t.shorter == t.width:
		fmt.Fprintf(&b, "center:%d", t.width)
	case t.crop == cropCenter:
		fmt.Fprintf(&b, "resize:%d,crop:%d", t.shorter, t.width)
	default:
		fmt.Fprintf(&b, "stretch:%dx%d", t.width, t.height)
	}
	if t.flip != 0 {
		fmt.Fprintf(&b, ",flip:%v", t.flip)
	}
	if t.filter != Bilinear {
		fmt.Fprintf(&b, ",%v", t.filter)
	}
	if j := t.jitter; j != (Jitter{}) {
		fmt.Fprintf(&b, ",jitter:%v,%v,%v,%v", j.Brightness, j.Contrast, j.Saturation, j.Hue)
	}
	return b.String()
}
