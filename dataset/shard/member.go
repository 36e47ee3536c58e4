package shard

import (
	"archive/tar"
	"fmt"
	"slices"
	"strings"
)

// MemberName returns the name of a member of a tar without "./" before it, and
// "" for what holds no file, such as a folder. It fails with [ErrFormat] for what
// cannot be read here: links, devices, sparse files, and paths that lead out of
// the archive.
func MemberName(h *tar.Header) (string, error) {
	switch h.Typeflag {
	case tar.TypeReg:
	case tar.TypeDir, tar.TypeXGlobalHeader:
		return "", nil
	case tar.TypeLink, tar.TypeSymlink:
		return "", fmt.Errorf("%w: a link to %.200q; pack the file itself (tar --dereference --hard-dereference)", ErrFormat, h.Linkname)
	default:
		return "", fmt.Errorf("%w: type %q; only regular files are read", ErrFormat, h.Typeflag)
	}
	for record := range h.PAXRecords {
		if strings.HasPrefix(record, "GNU.sparse.") {
			return "", fmt.Errorf("%w: a sparse file; pack it without holes", ErrFormat)
		}
	}
	name := strings.TrimPrefix(h.Name, "./")
	switch {
	case len(name) > maxNameBytes:
		return "", fmt.Errorf("%w: a name of %d bytes, the limit is %d", ErrTooLarge, len(name), maxNameBytes)
	case strings.HasPrefix(name, "/") || slices.Contains(strings.Split(name, "/"), ".."):
		return "", fmt.Errorf("%w: the path leads out of the archive", ErrFormat)
	}
	return name, nil
}

// SplitName cuts the name of a member at the first dot of its last part, which is
// where WebDataset cuts: "dog/0017.seg.png" is the member "seg.png" of the sample
// "dog/0017". Names without a key or without an extension are in no sample, nor
// are those of the kind __meta__.
func SplitName(name string) (key, extension string, ok bool) {
	base := strings.LastIndexByte(name, '/') + 1
	stem, extension, ok := strings.Cut(name[base:], ".")
	if !ok || stem == "" || extension == "" || strings.HasPrefix(name, "__") && strings.HasSuffix(stem, "__") {
		return "", "", false
	}
	return name[:base+len(stem)], extension, true
}
