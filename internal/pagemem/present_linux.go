package pagemem

import (
	"encoding/binary"
	"os"
)

// present reads /proc/self/pagemap: eight bytes for each page, of which the
// highest bit says that the page is mapped.
func present(b []byte) (bytes int64, known bool) {
	const entry = 8
	f, err := os.Open("/proc/self/pagemap")
	if err != nil {
		return 0, false
	}
	defer f.Close()
	start := int64(address(b))
	end := start + int64(len(b))
	first, last := start/pageSize, (end-1)/pageSize
	buffer := make([]byte, entry*min(last-first+1, 1<<16))
	for page := first; page <= last; {
		part := buffer[:entry*min(last-page+1, int64(len(buffer)/entry))]
		if _, err := f.ReadAt(part, page*entry); err != nil {
			return 0, false
		}
		for ; len(part) > 0; part = part[entry:] {
			if binary.NativeEndian.Uint64(part)>>63 != 0 {
				bytes += min(end, (page+1)*pageSize) - max(start, page*pageSize)
			}
			page++
		}
	}
	return bytes, true
}
