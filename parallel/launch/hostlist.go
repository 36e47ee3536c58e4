package launch

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

var errHosts = errors.New("not a list of hosts")

// firstHost is the first of the hosts of a list such as gpu[01-03,07],login1 or
// a[1-2]b[3-4]: numbers of one width in brackets, any number of them in a name.
func firstHost(list string) (string, error) {
	host := ""
	for list != "" && list[0] != ',' {
		plain := list
		if i := strings.IndexAny(list, "[],"); i >= 0 {
			plain = list[:i]
		}
		host, list = host+plain, list[len(plain):]
		if list == "" || list[0] == ',' {
			break
		}
		ranges, rest, closed := strings.Cut(list[1:], "]")
		if list[0] == ']' || !closed {
			return "", fmt.Errorf("%w: a bracket without its other", errHosts)
		}
		for i, part := range strings.Split(ranges, ",") {
			first, last, several := strings.Cut(part, "-")
			from, bad := strconv.ParseUint(first, 10, 32)
			to, worse := from, error(nil)
			if several {
				to, worse = strconv.ParseUint(last, 10, 32)
			}
			if bad != nil || worse != nil || from > to {
				return "", fmt.Errorf("%w: no range of numbers: %q", errHosts, part)
			}
			if i == 0 {
				host += first
			}
		}
		list = rest
	}
	if host == "" {
		return "", fmt.Errorf("%w: it begins with none", errHosts)
	}
	return host, nil
}

// tasksOf is how many tasks a node has, of a list such as 2(x3),1, by the node's number
// in it.
func tasksOf(list string, node int) (int, error) {
	nodes := 0
	for part := range strings.SplitSeq(list, ",") {
		text, times, several := strings.Cut(part, "(x")
		tasks, err := strconv.ParseUint(text, 10, 24)
		repeat := uint64(1)
		if several && err == nil {
			inside, closed := strings.CutSuffix(times, ")")
			if repeat, err = strconv.ParseUint(inside, 10, 24); !closed || repeat == 0 {
				err = strconv.ErrSyntax
			}
		}
		if err != nil {
			return 0, fmt.Errorf("no number of tasks: %q", part)
		}
		if nodes += int(repeat); node < nodes {
			return int(tasks), nil
		}
	}
	return 0, fmt.Errorf("only %d nodes", nodes)
}
