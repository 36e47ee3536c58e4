package header

import (
	"bytes"
	"fmt"

	"github.com/pinion-gpu/pinion/internal/errs"
)

// Format is a kind of picture file. Its text is for messages.
type Format string

const (
	JPEG Format = "JPEG"
	PNG  Format = "PNG"
	WebP Format = "WebP"
)

// Sniff tells the format from the first bytes. It fails with [errs.ErrFormat].
func Sniff(data []byte) (Format, error) {
	switch {
	case bytes.HasPrefix(data, []byte("\xff\xd8\xff")):
		return JPEG, nil
	case bytes.HasPrefix(data, []byte("\x89PNG\r\n\x1a\n")):
		return PNG, nil
	case len(data) >= 12 && string(data[:4]) == "RIFF" && string(data[8:12]) == "WEBP":
		if len(data) > 20 && string(data[12:16]) == "VP8X" && data[20]&2 != 0 {
			return "", fmt.Errorf("%w: an animated WebP", errs.ErrFormat)
		}
		return WebP, nil
	case len(data) == 0:
		return "", fmt.Errorf("%w: no data, 0 bytes", errs.ErrFormat)
	}
	return "", fmt.Errorf("%w: neither JPEG, PNG nor WebP: %d bytes that begin with %q", errs.ErrFormat, len(data), data[:min(8, len(data))])
}
