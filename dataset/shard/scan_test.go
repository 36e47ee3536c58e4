package shard

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/dataset/internal/datatest"
	"github.com/pinion-gpu/pinion/dataset/internal/labels"
)

// memory is a shard in memory.
type memory []byte

func (m memory) readAt(_ context.Context, p []byte, at int64) error {
	if n, err := bytes.NewReader(m).ReadAt(p, at); n < len(p) {
		return fmt.Errorf("read %d bytes at %d of %d: %w", len(p), at, len(m), err)
	}
	return nil
}

func scanned(t testing.TB, shard []byte, from labels.Source) (*index, error) {
	t.Helper()
	return scan(t.Context(), memory(shard), int64(len(shard)), from)
}

var cls = labels.NewSource("", "")

// listing is "member=content" of every sample, with its label.
func listing(x *index, shard []byte) string {
	var b strings.Builder
	for i, s := range x.samples {
		fmt.Fprintf(&b, "%s(%d):", x.key(i), s.label)
		first, end := x.run(i)
		for m := first; m < end; m++ {
			at := x.members[m].offset()
			fmt.Fprintf(&b, " %s=%s", x.extensions[x.extension[m]], shard[at:at+x.members[m].size])
		}
		b.WriteString("; ")
	}
	return b.String()
}

func TestScan(t *testing.T) {
	long := strings.Repeat("long/", 60) + "0001"
	for _, c := range []struct {
		name    string
		entries []entry
		labels  labels.Source
		skipped int
		want    string
	}{
		{"samples", []entry{{name: "1.jpg", content: "a"}, {name: "1.cls", content: " 7\n"}, {name: "2.jpg", content: "b"}},
			cls, 0, "1(7): jpg=a cls=7; 2(-1): jpg=b; "},
		{"folders", []entry{{name: "./x/", header: tar.Header{Typeflag: tar.TypeDir}}, {name: "./x/1.jpg", content: "a"}, {name: "./y/1.jpg", content: "b"}},
			cls, 0, "x/1(-1): jpg=a; y/1(-1): jpg=b; "},
		{"compound extensions", []entry{{name: "v1.0/1.seg.png", content: "s"}, {name: "v1.0/1.PNG", content: "p"}},
			cls, 0, "v1.0/1(-1): seg.png=s PNG=p; "},
		{"what is no sample", []entry{{name: "README", content: "x"}, {name: "__meta__.json", content: "x"}, {name: "1.jpg", content: "a"}, {name: ".hidden", content: "x"}, {name: "1.cls", content: "0"}, {name: "d.", content: ""}},
			cls, 4, "1(0): jpg=a cls=0; "},
		{"GNU long name", []entry{{name: long + ".jpg", content: "a", header: tar.Header{Format: tar.FormatGNU}}, {name: long + ".cls", content: "1", header: tar.Header{Format: tar.FormatGNU}}},
			cls, 0, long + "(1): jpg=a cls=1; "},
		{"pax long name", []entry{{name: "é" + long + ".jpg", content: "a", header: tar.Header{Format: tar.FormatPAX, PAXRecords: map[string]string{"comment": "x"}}}},
			cls, 0, "é" + long + "(-1): jpg=a; "},
		{"pax global header", []entry{{header: tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": "commit"}}}, {name: "1.jpg", content: "a"}},
			cls, 0, "1(-1): jpg=a; "},
		{"JSON labels", []entry{{name: "1.json", content: `{"a":{"class":3}}`}, {name: "2.json", content: `{"a":{"class":"12"}}`}, {name: "3.jpg"}},
			labels.NewSource("", "a.class"), 0, `1(3): json={"a":{"class":3}}; 2(12): json={"a":{"class":"12"}}; 3(-1): jpg=; `},
		{"no label is -1", []entry{{name: "1.cls", content: "-1"}}, cls, 0, "1(-1): cls=-1; "},
		{"keys in any order", []entry{{name: "b.jpg"}, {name: "a.jpg"}, {name: "c.jpg"}}, cls, 0, "b(-1): jpg=; a(-1): jpg=; c(-1): jpg=; "},
	} {
		shard := pack(t, c.entries...)
		x, err := scanned(t, shard, c.labels)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		want := strings.ReplaceAll(c.want, "cls=7", "cls= 7\n")
		if got := listing(x, shard); got != want || x.skipped != c.skipped {
			t.Errorf("%s: %q, %d skipped; want %q, %d", c.name, got, x.skipped, want, c.skipped)
		}
		if err := x.check(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// patched changes bytes of a tar's header and sets its checksum right.
func patched(shard []byte, header int, at int, text string) []byte {
	shard = bytes.Clone(shard)
	h := shard[header : header+blockBytes]
	copy(h[at:], text)
	copy(h[148:], "        ")
	sum := 0
	for _, v := range h {
		sum += int(v)
	}
	copy(h[148:], fmt.Sprintf("%06o\x00 ", sum))
	return shard
}

func TestScanRefuses(t *testing.T) {
	good := pack(t, entry{name: "1.jpg", content: strings.Repeat("x", 600)}, entry{name: "1.cls", content: "1"}) // headers at 0, 1536
	one := func(name, content string, h tar.Header) []byte {
		return pack(t, entry{name: "0.jpg", content: "fine"}, entry{name, content, h})
	}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	z.Write(good)
	z.Close()
	wrongSum := bytes.Clone(good)
	wrongSum[1536+3] ^= 1
	const typeAt, sizeAt = 156, 124
	negative := "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00"
	huge := "\x80\x00\x00\x00\x7f\xff\xff\xff\xff\xff\xff\xff"
	tooHuge := "\x80\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff"
	for _, c := range []struct {
		name  string
		shard []byte
		err   error
		text  string
	}{
		{"nothing", nil, ErrFormat, "0 bytes that begin with"},
		{"text", []byte("hello"), ErrFormat, `5 bytes that begin with "hello"`},
		{"a page", []byte("<!DOCTYPE html>" + strings.Repeat(" ", 2000)), ErrFormat, `begin with "<!DOCTYPE html> "`},
		{"gzip", zipped.Bytes(), ErrFormat, "gzip -d"},
		{"Zstandard", []byte("\x28\xb5\x2f\xfd......"), ErrFormat, "zstd -d"},
		{"a symbolic link", one("1.jpg", "", tar.Header{Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}), ErrFormat, `"1.jpg", before byte 1536: format not supported: a link to "/etc/passwd"`},
		{"a hard link", one("1.jpg", "", tar.Header{Typeflag: tar.TypeLink, Linkname: "0.jpg"}), ErrFormat, "link"},
		{"a device", one("1.jpg", "", tar.Header{Typeflag: tar.TypeChar, Devmajor: 1}), ErrFormat, `type '3'`},
		{"a pipe", one("1.jpg", "", tar.Header{Typeflag: tar.TypeFifo}), ErrFormat, `type '6'`},
		{"a GNU volume", patched(good, 1536, typeAt, "V"), ErrFormat, `type 'V'`},
		{"an absolute path", one("/etc/1.jpg", "", tar.Header{}), ErrFormat, `"/etc/1.jpg"`},
		{"a path upwards", one("a/../../1.jpg", "", tar.Header{}), ErrFormat, "leads out"},
		{"a wrong checksum", wrongSum, ErrDamaged, `byte 1536, after the member "1.jpg"`},
		{"a negative size", patched(good, 1536, sizeAt, negative), ErrDamaged, "byte 1536"},
		{"a size that is too large", patched(good, 1536, sizeAt, huge), ErrDamaged, `"1.cls", before byte 2048: damaged: a member of 9223372036854775807 bytes at byte 2048, the shard ends at`},
		{"a size beyond 64 bits", patched(good, 1536, sizeAt, tooHuge), ErrDamaged, "byte 1536"},
		{"a size beyond the file", patched(good, 1536, sizeAt, "00000077777 "), ErrDamaged, "a member of 32767 bytes at byte 2048, the shard ends at 3584"},
		{"cut in a member", good[:1000], ErrDamaged, "a member of 600 bytes at byte 512, the shard ends at 1000"},
		{"cut in a header", good[:1536+100], ErrDamaged, "the shard ends after 1636 bytes"},
		{"cut between members", good[:1536], ErrDamaged, "without an end mark"},
		{"another archive behind", append(bytes.Clone(good), good...), ErrDamaged, "cannot be appended"},
		{"another archive behind a record", append(append(bytes.Clone(good), make([]byte, 20<<10-len(good))...), good...), ErrDamaged, "cannot be appended"},
		{"one name twice", pack(t, entry{name: "1.jpg"}, entry{name: "1.JPG"}), ErrDamaged, "second member of that name"},
		{"one name again in the next sample", pack(t, entry{name: "1.jpg"}, entry{name: "2.jpg"}, entry{name: "2.x"}, entry{name: "2.Jpg"}), ErrDamaged, "second member of that name"},
		{"a key again", pack(t, entry{name: "1.jpg"}, entry{name: "2.jpg"}, entry{name: "1.cls", content: "1"}), ErrDamaged, `the key "1" comes again at byte 1024`},
		{"a label that is no class", pack(t, entry{name: "1.cls", content: "0.5"}), ErrFormat, `"1.cls", before byte`},
		{"a label too large", pack(t, entry{name: "1.cls", content: "2147483648"}), ErrFormat, "2147483648"},
		{"a label too long", pack(t, entry{name: "1.cls", content: strings.Repeat("x", 1025)}), ErrTooLarge, "1025 bytes, the limit is 1024"},
		{"a name too long", pack(t, entry{name: strings.Repeat("x", 4096) + ".jpg"}), ErrTooLarge, "4100 bytes, the limit is 4096"},
		{"pax records too long", rawPAX(t, "1048600 comment="+strings.Repeat("x", 1048600-17)+"\n"), ErrTooLarge, "field too long"},
	} {
		_, err := scanned(t, c.shard, cls)
		if !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	for _, content := range []string{"", "{", "[]", `{"a":[]}`, `{"b":1}`, `{"a":1.5}`, `{"a":1}{}`} {
		if _, err := scanned(t, pack(t, entry{name: "1.json", content: content}), labels.NewSource("", "a")); !errors.Is(err, ErrFormat) {
			t.Errorf("JSON %s: %v", content, err)
		}
	}
}

// rawPAX is a pax header with these records.
func rawPAX(t testing.TB, records string) []byte {
	t.Helper()
	shard := pack(t, entry{name: "pax", content: records})
	return patched(shard, 0, 156, "x")[:len(shard)-2*blockBytes]
}

func TestScanRefusesSparseFiles(t *testing.T) {
	old := patched(pack(t, entry{name: "1.jpg", content: "abc"}), 0, 257, "ustar  \x00") // GNU's magic
	old = patched(old, 0, 156, "S")
	pax := append(rawPAX(t, "22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n"), pack(t, entry{name: "1.jpg", content: "1\n0\n1\n"})...)
	for name, shard := range map[string][]byte{"GNU": old, "pax": pax} {
		if _, err := scanned(t, shard, cls); err == nil || !errors.Is(err, ErrFormat) && !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestScanOfPAXWithoutEnd: pax headers one behind the other, for no member.
func TestScanOfPAXWithoutEnd(t *testing.T) {
	shard := bytes.Repeat(rawPAX(t, "20 comment=endless.\n"), 1000)
	if _, err := scanned(t, shard, cls); !errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
}

// failing is a source that breaks.
type failing struct{ err error }

func (f failing) readAt(context.Context, []byte, int64) error { return f.err }

func TestScanPassesErrorsOn(t *testing.T) {
	if _, err := scan(t.Context(), failing{io.ErrClosedPipe}, 10240, cls); !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
	good := pack(t, numbered(0, 20)...)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := scan(ctx, memory(good), int64(len(good)), cls); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestScanReadsHeadersOnly: a large member is not read.
func TestScanReadsHeadersOnly(t *testing.T) {
	shard := pack(t, entry{name: "1.bin", content: strings.Repeat("x", 1<<20)}, entry{name: "2.bin", content: strings.Repeat("x", 1<<20)})
	counting := &counter{memory: shard}
	if _, err := scan(t.Context(), counting, int64(len(shard)), cls); err != nil {
		t.Fatal(err)
	}
	if counting.bytes > 8*cursorBytes {
		t.Errorf("%d bytes were read of 2 MiB", counting.bytes)
	}
}

type counter struct {
	memory
	bytes int
}

func (c *counter) readAt(ctx context.Context, p []byte, at int64) error {
	c.bytes += len(p)
	return c.memory.readAt(ctx, p, at)
}

// FuzzScan: whatever comes, an index that fits the shard or an error of a
// known kind; and what archive/tar reads in order is what the index finds.
func FuzzScan(f *testing.F) {
	f.Add(datatest.SqueezeTar(pack(f, entry{name: "1.jpg", content: "abc"}, entry{name: "1.cls", content: "1"})))
	f.Add(datatest.SqueezeTar(pack(f, entry{name: strings.Repeat("d/", 99) + "é.jpg", content: "abc"})))
	f.Add(datatest.SqueezeTar(pack(f, entry{name: "a.jpg", content: strings.Repeat("x", 600), header: tar.Header{Format: tar.FormatPAX, PAXRecords: map[string]string{"comment": "x"}}})))
	f.Add(datatest.SqueezeTar(patched(pack(f, entry{name: "1.jpg", content: "abc"}), 0, 124, "\x80\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x03")))
	f.Add(datatest.SqueezeTar(append(rawPAX(f, "9 size=3\n20 path=elsewhere.x\n"), pack(f, entry{name: "1.jpg", content: "abc"})...)))
	f.Fuzz(func(t *testing.T, squeezed []byte) {
		shard := datatest.StretchTar(squeezed)
		// With wrong checksums, headers would never be looked into.
		for at := 0; at+blockBytes <= len(shard); at += blockBytes {
			if string(shard[at+257:at+262]) == "ustar" {
				shard = patched(shard, at, 0, "")
			}
		}
		x, err := scanned(t, shard, cls)
		if err != nil {
			if !errors.Is(err, ErrFormat) && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrTooLarge) {
				t.Errorf("unknown kind of error: %v", err)
			}
			return
		}
		if err := x.check(); err != nil {
			t.Error(err)
		}
		r := tar.NewReader(bytes.NewReader(shard))
		m := 0
		for h, err := r.Next(); err != io.EOF; h, err = r.Next() {
			if err != nil {
				t.Fatal(err)
			}
			name := strings.TrimPrefix(h.Name, "./")
			if _, _, ok := SplitName(name); !ok || h.Typeflag != tar.TypeReg {
				continue
			}
			content, err := io.ReadAll(r)
			at := x.members[m].offset()
			if err != nil || x.name(m) != name || !bytes.Equal(content, shard[at:at+x.members[m].size]) {
				t.Errorf("member %d is %q, want %q: %v", m, x.name(m), name, err)
			}
			m++
		}
		if m != len(x.members) {
			t.Errorf("%d members, want %d", len(x.members), m)
		}
		again, err := decodeIndex(x.encode("key"), "key", x.size)
		if err != nil || listing(again, shard) != listing(x, shard) {
			t.Errorf("read again: %v", err)
		}
	})
}
