package stream_test

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/pinion-gpu/pinion/dataset/stream"
)

// writeTar writes a compressed tar of three samples.
func writeTar(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	z := gzip.NewWriter(f)
	w := tar.NewWriter(z)
	for _, m := range [][2]string{{"cat.txt", "purr"}, {"cat.cls", "0"}, {"dog.txt", "woof"}, {"dog.cls", "1"}, {"cow.txt", "moo"}, {"cow.cls", "2"}} {
		if err := w.WriteHeader(&tar.Header{Name: m[0], Size: int64(len(m[1])), Mode: 0o644}); err != nil {
			return err
		}
		if _, err := w.Write([]byte(m[1])); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return z.Close()
}

// A compressed tar is filtered and shuffled, and read again from where it was
// left.
func Example() {
	dir, err := os.MkdirTemp("", "stream")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "animals.tar.gz")
	if err := writeTar(path); err != nil {
		log.Fatal(err)
	}
	s, err := stream.Open(path, stream.Options{})
	if err != nil {
		log.Fatal(err)
	}
	s = s.Filter(func(r *stream.Record) (bool, error) { return r.Label > 0, nil }).Shuffle(2, 7)

	var at stream.Position
	for r, err := range s.Records(context.Background(), at) {
		if err != nil {
			log.Fatal(err)
		}
		at.Records++
		fmt.Printf("%s says %s\n", r.Key, r.Member("txt"))
		break // for today
	}
	for r, err := range s.Records(context.Background(), at) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s says %s\n", r.Key, r.Member("txt"))
	}
	// Output:
	// cow says moo
	// dog says woof
}
