package points

import (
	"fmt"

	"github.com/pinion-gpu/pinion/dataset"
)

// unpackLZF fills dst with what src decompresses to. LZF is Marc Lehmann's
// (http://oldhome.schmorp.de/marc/liblzf.html): a control byte below 32 is
// followed by one more bytes than it says; others hold the length and the
// distance of bytes that were there before.
func unpackLZF(dst, src []byte) error {
	at := 0
	for len(src) > 0 {
		control := int(src[0])
		src = src[1:]
		if control < 32 {
			n := control + 1
			if n > len(src) || n > len(dst)-at {
				return fmt.Errorf("%w: LZF: %d bytes as they are, %d left, room for %d", dataset.ErrDamaged, n, len(src), len(dst)-at)
			}
			at += copy(dst[at:], src[:n])
			src = src[n:]
			continue
		}
		n, more := control>>5, 1
		if n == 7 {
			more = 2
		}
		if len(src) < more {
			return fmt.Errorf("%w: LZF: ends inside of a reference", dataset.ErrDamaged)
		}
		if n == 7 {
			n += int(src[0])
		}
		n += 2
		from := at - (control&31<<8 | int(src[more-1])) - 1
		if src = src[more:]; from < 0 || n > len(dst)-at {
			return fmt.Errorf("%w: LZF: %d bytes from %d at %d of %d", dataset.ErrDamaged, n, from, at, len(dst))
		}
		// Byte by byte, since it may repeat what it writes.
		for i := range n {
			dst[at+i] = dst[from+i]
		}
		at += n
	}
	if at != len(dst) {
		return fmt.Errorf("%w: LZF: %d of %d bytes", dataset.ErrDamaged, at, len(dst))
	}
	return nil
}
