package trace

// interner makes equal strings share their memory: a trace has millions of
// events and a handful of purposes. It is bounded, since names may be many.
type interner map[string]string

const maxInterned = 4096

func (in interner) string(text []byte) string {
	if s, ok := in[string(text)]; ok {
		return s
	}
	s := string(text)
	if len(in) < maxInterned && len(s) <= 64 {
		in[s] = s
	}
	return s
}
