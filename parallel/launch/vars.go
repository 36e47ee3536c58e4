package launch

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// vars reads variables, and keeps the first error.
type vars struct {
	get func(string) string
	err error
}

func (v *vars) fail(format string, args ...any) {
	if v.err == nil {
		v.err = fmt.Errorf(format, args...)
	}
}

// any reports whether one of the variables is set.
func (v *vars) any(names ...string) bool { return v.first(names...) != "" }

// first is the name of the first variable that is set.
func (v *vars) first(names ...string) string {
	for _, name := range names {
		if v.get(name) != "" {
			return name
		}
	}
	return ""
}

// most is far more than there are processes anywhere.
const most = 1 << 24

// number is the value of a variable that must be there.
func (v *vars) number(name string) int {
	text := v.get(name)
	n, err := strconv.Atoi(text)
	switch {
	case text == "":
		v.fail("%s is not set, though others of its launcher are", name)
	case err != nil:
		v.fail("%s is %q: not a whole number", name, text)
	case n < 0 || n > most:
		v.fail("%s is %d: not within 0 to %d", name, n, most)
	default:
		return n
	}
	return 0
}

// count is the value of a variable that may be missing, and is 0 then.
func (v *vars) count(name string) int {
	if v.get(name) == "" {
		return 0
	}
	return v.number(name)
}

// pair reads a rank and the number of those that it is one of.
func (v *vars) pair(rankName, sizeName string) (rank, size int) {
	rank, size = v.number(rankName), v.number(sizeName)
	if v.err == nil {
		v.within(rankName, rank, sizeName, size)
	}
	return rank, size
}

func (v *vars) within(rankName string, rank int, sizeName string, size int) {
	if rank >= size {
		v.fail("%s is %d, but %s is %d: ranks are less than their number", rankName, rank, sizeName, size)
	}
}

// address checks a host:port, and returns it as a dialer takes it.
func (v *vars) address(name, value string) string {
	host, port, err := net.SplitHostPort(value)
	n, bad := strconv.ParseUint(port, 10, 16)
	if err != nil || bad != nil || host == "" || n == 0 {
		v.fail("%s is %q: not host:port with a port of 1 to 65535", name, value)
	}
	return value
}

// master is the address that two variables tell, "" if neither is set.
func (v *vars) master(hostName, portName string) string {
	host, port := v.get(hostName), v.get(portName)
	if host == "" {
		return ""
	}
	if port == "" {
		v.fail("%s is %q, but %s is not set", hostName, host, portName)
		return ""
	}
	return v.address(hostName+":"+portName, net.JoinHostPort(trimmed(host), port))
}

// meeting is as master, which more than one rank need.
func (v *vars) meeting(hostName, portName string, size int) string {
	master := v.master(hostName, portName)
	if master == "" && size > 1 {
		v.fail("there are %d ranks, but %s and %s (where to meet rank 0) are not set", size, hostName, portName)
	}
	return master
}

// trimmed is an address without the brackets that some put around one of IPv6.
func trimmed(host string) string { return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]") }
