package page

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// errQuery: a request asks for what there cannot be.
var errQuery = errors.New("bad query")

// number is a parameter of a request: a whole number within bounds.
type number struct {
	name        string
	least, most int64
	missing     int64 // if it is not given
}

// parse reads the parameters of a request, of which each is known and given once. An
// error says nothing that the request said.
func parse(r *http.Request, numbers ...number) (map[string]int64, error) {
	given, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("%w: it cannot be read", errQuery)
	}
	values := map[string]int64{}
	var names []string
	for _, n := range numbers {
		names = append(names, n.name)
		values[n.name] = n.missing
		texts, there := given[n.name]
		delete(given, n.name)
		if !there {
			continue
		}
		v, err := strconv.ParseInt(texts[0], 10, 64)
		if err != nil || len(texts) > 1 || v < n.least || v > n.most {
			return nil, fmt.Errorf("%w: %s must be a whole number from %d to %d", errQuery, n.name, n.least, n.most)
		}
		values[n.name] = v
	}
	if len(given) > 0 {
		if len(names) == 0 {
			return nil, fmt.Errorf("%w: there are no parameters", errQuery)
		}
		return nil, fmt.Errorf("%w: the parameters are %s", errQuery, strings.Join(names, ", "))
	}
	return values, nil
}
