package trace

import (
	"bytes"
	"math"
	"strconv"
	"time"

	"github.com/pinion-gpu/pinion/internal/jsonscan"
)

// parseHex reads hexadecimal digits, with or without 0x before them.
func parseHex(text []byte) (u uint64, ok bool) {
	if hasHexPrefix(text) {
		text = text[2:]
	}
	if len(text) == 0 || len(text) > 16 {
		return 0, false
	}
	for _, c := range text {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		u = u<<4 | uint64(c)
	}
	return u, true
}

func hasHexPrefix(text []byte) bool {
	return len(text) > 2 && text[0] == '0' && text[1]|0x20 == 'x'
}

// parseSeconds reads a number of seconds, to the nanosecond.
func parseSeconds(text []byte) (time.Duration, bool) {
	digits, negative := bytes.CutPrefix(text, []byte("-"))
	whole, fraction, point := bytes.Cut(digits, []byte("."))
	seconds, ok := jsonscan.ParseUint(whole)
	nanos, fine := jsonscan.ParseUint(fraction)
	if !ok || point != fine || seconds > maxSeconds || len(fraction) > 9 {
		return floatSeconds(string(text))
	}
	for range 9 - len(fraction) {
		nanos *= 10
	}
	nanos += seconds * uint64(time.Second)
	if negative {
		return -time.Duration(nanos), nanos <= 1<<63
	}
	return time.Duration(nanos), nanos <= math.MaxInt64
}

const maxSeconds = math.MaxInt64 / uint64(time.Second)

// floatSeconds reads what parseSeconds does not: exponents, more digits.
func floatSeconds(text string) (time.Duration, bool) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !(math.Abs(f) < float64(maxSeconds)) {
		return 0, false
	}
	return time.Duration(f * float64(time.Second)), true
}

// appendSeconds is the inverse of parseSeconds.
func appendSeconds(out []byte, d time.Duration) []byte {
	if d < 0 {
		out = append(out, '-')
	}
	seconds, nanos := (d / time.Second).Abs(), (d % time.Second).Abs()
	out = strconv.AppendInt(out, int64(seconds), 10)
	if nanos == 0 {
		return out
	}
	// A leading 1 keeps the zeros in front, and becomes the point.
	point := len(out)
	out = strconv.AppendInt(out, int64(time.Second+nanos), 10)
	out[point] = '.'
	return bytes.TrimRight(out, "0")
}
