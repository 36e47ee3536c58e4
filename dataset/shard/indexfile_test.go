package shard

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"reflect"
	"slices"
	"testing"
)

func TestIndexFile(t *testing.T) {
	shard := pack(t, numbered(0, 50)...)
	x, err := scanned(t, shard, cls)
	if err != nil {
		t.Fatal(err)
	}
	file := x.encode("the key")
	again, err := decodeIndex(file, "the key", x.size)
	if err != nil || !reflect.DeepEqual(again, x) {
		t.Fatalf("read again: %+v, %v", again, err)
	}
	if len(file) >= len(shard) {
		t.Errorf("an index of %d bytes for a shard of %d", len(file), len(shard))
	}
	odd, err := scanned(t, pack(t, entry{name: "1.x\ny", content: "1"}, entry{name: "1.jpg", content: "2"}), cls)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := decodeIndex(odd.encode(""), "", odd.size); err != nil || !slices.Equal(again.extensions, odd.extensions) {
		t.Errorf("%v, with line ends in extensions: %v", again, err)
	}
	if _, err := decodeIndex(file, "other", x.size); !errors.Is(err, ErrFormat) {
		t.Errorf("another key: %v", err)
	}
	if _, err := decodeIndex(file, "the key", x.size+1); !errors.Is(err, ErrFormat) {
		t.Errorf("another size: %v", err)
	}
	for i := range file {
		bad := bytes.Clone(file)
		bad[i] ^= 0x10
		if _, err := decodeIndex(bad, "the key", x.size); err == nil {
			t.Fatalf("byte %d is wrong, and the index is read", i)
		}
		if _, err := decodeIndex(file[:i], "the key", x.size); err == nil {
			t.Fatalf("cut after %d bytes, and the index is read", i)
		}
	}
}

// FuzzIndexFile: an index with a right checksum and any content is an error,
// or one that nothing goes wrong with.
func FuzzIndexFile(f *testing.F) {
	shard := pack(f, numbered(0, 3)...)
	x, err := scanned(f, shard, cls)
	if err != nil {
		f.Fatal(err)
	}
	file := x.encode("k")
	f.Add(file[:len(file)-4])
	texts, err := scanned(f, labelled(f, 'a', "cls", "dog", "cat"), cls)
	if err != nil {
		f.Fatal(err)
	}
	texts.size = x.size
	file = texts.encode("k")
	f.Add(file[:len(file)-4])
	f.Fuzz(func(t *testing.T, file []byte) {
		file = binary.LittleEndian.AppendUint32(bytes.Clone(file), crc32.Checksum(file, castagnoli))
		x, err := decodeIndex(file, "k", int64(len(shard)))
		if err != nil {
			if !errors.Is(err, ErrFormat) && !errors.Is(err, ErrDamaged) {
				t.Errorf("unknown kind of error: %v", err)
			}
			return
		}
		listing(x, shard)
		for m := range x.members {
			x.name(m)
		}
		if !bytes.Equal(x.encode("k"), file) {
			t.Error("written again, it is another file")
		}
	})
}
