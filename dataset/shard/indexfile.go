package shard

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/pinion-gpu/pinion/dataset/internal/labels"
)

// IndexSuffix is added to the name of a shard for that of the index beside it.
const IndexSuffix = ".index"

// An index file is, little-endian:
//
//	magic, with the version
//	8 bytes     size of the shard
//	8           members that are in no sample
//	4 x 7       bytes of the key of the file, of all extensions, of all keys;
//	            numbers of samples, of members; bytes of the names of classes,
//	            of the texts of labels
//	            the key of the file
//	            the extensions, each with a zero byte behind it
//	            the keys of the samples, end to end
//	12 each     samples: end of the key, first member, label
//	16 each     members: size, block, checksum of the header
//	2 each      extensions of the members
//	            the names of classes, as the shard has them
//	            the distinct texts of labels, sorted, each with 2 bytes of length
//	            before it; labels are then indexes to them
//	4           CRC-32C of everything before
//
// The key says what it is the index of: the shard's identity and where its
// labels come from.
const indexMagic = "pinion shards 3\n"

const (
	indexHeadBytes = len(indexMagic) + 8 + 8 + 4*7
	sampleBytes    = 12
	memberBytes    = 16
	indexSumBytes  = 4

	// maxIndexBytes is more than the index of any shard within the bounds has.
	maxIndexBytes = 2 << 30
)

// indexLengths reads the seven lengths in the head of an index file, and
// returns how long they say the file is.
func indexLengths(head []byte) (lengths [7]int64, file int64) {
	file = int64(indexHeadBytes + indexSumBytes)
	at := len(indexMagic) + 8 + 8
	for i, each := range []int64{1, 1, 1, sampleBytes, memberBytes + 2, 1, 1} {
		lengths[i] = int64(binary.LittleEndian.Uint32(head[at+4*i:]))
		file += lengths[i] * each
	}
	return lengths, file
}

// encode returns an index file. It is smaller than the shard, which has a
// block for every member: what is larger is no index.
func (x *index) encode(key string) []byte {
	var extensions []byte
	for _, e := range x.extensions {
		extensions = append(append(extensions, e...), 0)
	}
	le := binary.LittleEndian
	var texts []byte
	for _, t := range x.texts {
		texts = append(le.AppendUint16(texts, uint16(len(t))), t...)
	}
	file := make([]byte, 0, indexHeadBytes+len(key)+len(extensions)+len(x.keys)+len(x.samples)*sampleBytes+len(x.members)*(memberBytes+2)+len(x.classes)+len(texts)+indexSumBytes)
	file = append(file, indexMagic...)
	file = le.AppendUint64(file, uint64(x.size))
	file = le.AppendUint64(file, uint64(x.skipped))
	for _, n := range []int{len(key), len(extensions), len(x.keys), len(x.samples), len(x.members), len(x.classes), len(texts)} {
		file = le.AppendUint32(file, uint32(n))
	}
	file = append(file, key...)
	file = append(file, extensions...)
	file = append(file, x.keys...)
	for _, s := range x.samples {
		file = le.AppendUint32(file, s.keyEnd)
		file = le.AppendUint32(file, s.first)
		file = le.AppendUint32(file, uint32(s.label))
	}
	for _, m := range x.members {
		file = le.AppendUint64(file, uint64(m.size))
		file = le.AppendUint32(file, m.block)
		file = le.AppendUint32(file, m.check)
	}
	for _, e := range x.extension {
		file = le.AppendUint16(file, e)
	}
	file = append(file, x.classes...)
	file = append(file, texts...)
	return le.AppendUint32(file, crc32.Checksum(file, castagnoli))
}

// decodeIndex reads an index file with that key of a shard of that size.
// Whatever the file says, the index is one that can be worked with.
func decodeIndex(file []byte, key string, size int64) (*index, error) {
	le := binary.LittleEndian
	if len(file) < indexHeadBytes+indexSumBytes || !bytes.HasPrefix(file, []byte(indexMagic)) {
		return nil, fmt.Errorf("%w: not an index of this version", ErrFormat)
	}
	lengths, total := indexLengths(file)
	if total != int64(len(file)) {
		return nil, fmt.Errorf("%w: an index of %d bytes, its head says %d", ErrDamaged, len(file), total)
	}
	file, check := file[:len(file)-indexSumBytes], le.Uint32(file[len(file)-indexSumBytes:])
	if crc32.Checksum(file, castagnoli) != check {
		return nil, fmt.Errorf("%w: the checksum of an index is wrong", ErrDamaged)
	}
	rest := file[len(indexMagic):]
	x := &index{size: int64(le.Uint64(rest)), skipped: int(le.Uint64(rest[8:]))}
	rest = file[indexHeadBytes:]
	part := func(bytes int64) []byte {
		p := rest[:bytes]
		rest = rest[bytes:]
		return p
	}
	if is := string(part(lengths[0])); is != key || x.size != size {
		return nil, fmt.Errorf("%w: the index of %q with %d bytes", ErrFormat, is, x.size)
	}
	for extensions := part(lengths[1]); len(extensions) > 0; {
		e, after, _ := bytes.Cut(extensions, []byte{0})
		x.extensions = append(x.extensions, string(e))
		extensions = after
	}
	x.keys = slices.Clone(part(lengths[2]))
	x.samples = make([]sample, lengths[3])
	for i := range x.samples {
		p := part(sampleBytes)
		x.samples[i] = sample{le.Uint32(p), le.Uint32(p[4:]), int32(le.Uint32(p[8:]))}
	}
	x.members = make([]member, lengths[4])
	for i := range x.members {
		p := part(memberBytes)
		x.members[i] = member{int64(le.Uint64(p)), le.Uint32(p[8:]), le.Uint32(p[12:])}
	}
	x.extension = make([]uint16, lengths[4])
	for i := range x.extension {
		x.extension[i] = le.Uint16(part(2))
	}
	if classes := part(lengths[5]); len(classes) > 0 {
		x.classes = slices.Clone(classes)
	}
	if lengths[6] > labels.MaxClassesBytes+2*labels.MaxClasses {
		return nil, fmt.Errorf("%w: %d bytes of texts of labels in an index, the limit is %d", ErrDamaged, lengths[6], labels.MaxClassesBytes+2*labels.MaxClasses)
	}
	for texts := part(lengths[6]); len(texts) > 0; {
		n := 2
		if len(texts) >= n {
			n += int(le.Uint16(texts))
		}
		if len(texts) < n || len(x.texts) == labels.MaxClasses {
			return nil, fmt.Errorf("%w: text %d of the labels in an index", ErrDamaged, len(x.texts))
		}
		x.texts = append(x.texts, string(texts[2:n]))
		texts = texts[n:]
	}
	return x, x.check()
}

// check checks that the parts of an index fit together and into the shard.
func (x *index) check() error {
	if len(x.classes) > labels.MaxClassesBytes {
		return fmt.Errorf("%w: %d bytes of names of classes in an index, the limit is %d", ErrDamaged, len(x.classes), labels.MaxClassesBytes)
	}
	for i, t := range x.texts {
		if t == "" || len(t) > labels.MaxText || i > 0 && t <= x.texts[i-1] {
			return fmt.Errorf("%w: text %d of the labels in an index", ErrDamaged, i)
		}
	}
	keys, first := uint32(0), uint32(0)
	for i, s := range x.samples {
		if s.keyEnd <= keys || s.label < -1 || x.texts != nil && int(s.label) >= len(x.texts) || (i == 0) != (s.first == 0) || i > 0 && s.first <= first {
			return fmt.Errorf("%w: sample %d of an index", ErrDamaged, i)
		}
		keys, first = s.keyEnd, s.first
	}
	if int(keys) != len(x.keys) || int(first) >= max(len(x.members), 1) || len(x.samples) == 0 && len(x.members) > 0 || x.skipped < 0 {
		return fmt.Errorf("%w: %d samples of %d members with %d bytes of keys in an index", ErrDamaged, len(x.samples), len(x.members), len(x.keys))
	}
	for i, m := range x.members {
		if m.size < 0 || m.block < 1 || m.size > x.size-m.offset() || int(x.extension[i]) >= len(x.extensions) {
			return fmt.Errorf("%w: member %d of an index", ErrDamaged, i)
		}
	}
	return nil
}
