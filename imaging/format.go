package imaging

import (
	"bytes"
	"fmt"
)

type format string

const (
	formatJPEG format = "JPEG"
	formatPNG  format = "PNG"
	formatWebP format = "WebP"
)

// sniff tells the format from the first bytes.
func sniff(data []byte) (format, error) {
	switch {
	case bytes.HasPrefix(data, []byte("\xff\xd8\xff")):
		return formatJPEG, nil
	case bytes.HasPrefix(data, []byte("\x89PNG\r\n\x1a\n")):
		return formatPNG, nil
	case len(data) >= 12 && string(data[:4]) == "RIFF" && string(data[8:12]) == "WEBP":
		if len(data) > 20 && string(data[12:16]) == "VP8X" && data[20]&2 != 0 {
			return "", fmt.Errorf("%w: an animated WebP", ErrFormat)
		}
		return formatWebP, nil
	case len(data) == 0:
		return "", fmt.Errorf("%w: no data, 0 bytes", ErrFormat)
	}
	return "", fmt.Errorf("%w: neither JPEG, PNG nor WebP: %d bytes that begin with %q", ErrFormat, len(data), data[:min(8, len(data))])
}
