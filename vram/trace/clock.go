package trace

import (
	"bytes"
	"time"

	"github.com/pinion-gpu/pinion/internal/jsonscan"
)

// clock turns times of a log into time since its first one.
type clock struct {
	started     bool
	start, last time.Duration
	days        time.Duration // that have passed, for clock times
}

const day = 24 * time.Hour

// since reads a number of seconds, or a clock time such as 12:34:56.789012 or,
// as older logs have it, 12:34:56:789012. Nothing depends on times, so that
// those of any other form are taken for the time before them.
func (c *clock) since(text []byte) time.Duration {
	var now time.Duration
	var ok bool
	if bytes.IndexByte(text, ':') >= 0 {
		if now, ok = clockTime(text); ok {
			now += c.days
			if c.started && now < c.last-day/2 { // midnight
				c.days += day
				now += day
			}
		}
	} else {
		now, ok = parseSeconds(text)
	}
	if !ok {
		return c.last - c.start
	}
	if !c.started {
		c.started, c.start = true, now
	}
	c.last = now
	return now - c.start
}

// clockTime reads the time since midnight.
func clockTime(text []byte) (time.Duration, bool) {
	hours, rest, _ := bytes.Cut(text, []byte(":"))
	minutes, seconds, _ := bytes.Cut(rest, []byte(":"))
	if i := bytes.IndexByte(seconds, ':'); i >= 0 {
		seconds = append(append(append([]byte{}, seconds[:i]...), '.'), seconds[i+1:]...)
	}
	h, ok := jsonscan.ParseUint(hours)
	m, fine := jsonscan.ParseUint(minutes)
	s, good := parseSeconds(seconds)
	if !ok || !fine || !good || h > 23 || m > 59 || s < 0 || s > time.Minute {
		return 0, false
	}
	return time.Duration(h)*time.Hour + time.Duration(m)*time.Minute + s, true
}
