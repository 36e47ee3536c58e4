package parquet

import "encoding/json"

// classes returns the names of the classes of a label that Hugging Face's
// datasets write into the footer of a file; nil if there are none.
func (s *source) classes(label string) []string {
	text, ok := s.footer.Meta["huggingface"]
	if !ok {
		return nil
	}
	var meta struct {
		Info struct {
			Features map[string]json.RawMessage `json:"features"`
		} `json:"info"`
	}
	var class struct {
		Names []string `json:"names"`
	}
	if json.Unmarshal([]byte(text), &meta) != nil || json.Unmarshal(meta.Info.Features[label], &class) != nil {
		return nil
	}
	return class.Names
}
