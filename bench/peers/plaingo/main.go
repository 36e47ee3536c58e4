// Command plaingo feeds a photo folder the way a Go program without Pinion
// would: image/jpeg, x/image's bilinear scaling and a loop that normalises,
// in a number of goroutines. It prints a peer document for comparison with
// `pinion feed --device host`.
//
//	go run ./bench/peers/plaingo DIR [WORKERS]
package main

import (
	"encoding/json"
	"fmt"
	"image"
	_ "image/jpeg"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/image/draw"
)

const (
	size   = 224
	batch  = 64
	epochs = 5
)

var (
	mean = [3]float32{0.485, 0.456, 0.406}
	std  = [3]float32{0.229, 0.224, 0.225}
)

func main() {
	if len(os.Args) < 2 {
		log.Fatal("usage: plaingo DIR [WORKERS]")
	}
	workers := runtime.GOMAXPROCS(0)
	if len(os.Args) > 2 {
		workers, _ = strconv.Atoi(os.Args[2])
	}
	var files []string
	err := filepath.WalkDir(os.Args[1], func(path string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".jpg" {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) == 0 {
		log.Fatalf("%d photos in %s: %v", len(files), os.Args[1], err)
	}
	var rates []float64
	for epoch := range epochs + 1 {
		start := time.Now()
		feed(files, workers)
		if epoch > 0 { // the first warms up
			rates = append(rates, float64(len(files))/time.Since(start).Seconds())
		}
	}
	slices.Sort(rates)
	out, _ := json.MarshalIndent(map[string]any{
		"peer":        "plain Go (image/jpeg, x/image/draw), " + runtime.Version(),
		"what":        "loader",
		"machine":     fmt.Sprintf("%s/%s, %d CPUs", runtime.GOOS, runtime.GOARCH, runtime.NumCPU()),
		"measured_at": time.Now().UTC().Format(time.RFC3339),
		"epochs":      epochs,
		"batch":       batch,
		"rows": []map[string]any{{
			"name": fmt.Sprintf("%d workers", workers), "value": rates[epochs/2],
			"unit": "images/s", "min": rates[0], "max": rates[epochs-1],
		}},
	}, "", "  ")
	fmt.Println(string(out))
}

// feed makes every photo a place in a batch of normalised floats.
func feed(files []string, workers int) {
	var next atomic.Int64
	var wg sync.WaitGroup
	batches := make([]float32, batch*3*size*size)
	for range workers {
		wg.Go(func() {
			rgba := image.NewRGBA(image.Rect(0, 0, size, size))
			for {
				i := int(next.Add(1)) - 1
				if i >= len(files) {
					return
				}
				load(files[i], rgba)
				normalize(batches[i%batch*3*size*size:][:3*size*size], rgba)
			}
		})
	}
	wg.Wait()
}

// load decodes a photo and scales its middle square.
func load(path string, dst *image.RGBA) {
	f, err := os.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	photo, _, err := image.Decode(f)
	if err != nil {
		log.Fatalf("%s: %v", path, err)
	}
	b := photo.Bounds()
	side := min(b.Dx(), b.Dy())
	square := image.Rect(0, 0, side, side).Add(b.Min).Add(image.Pt((b.Dx()-side)/2, (b.Dy()-side)/2))
	draw.BiLinear.Scale(dst, dst.Bounds(), photo, square, draw.Src, nil)
}

func normalize(dst []float32, src *image.RGBA) {
	for i := range size * size {
		for c := range 3 {
			dst[c*size*size+i] = (float32(src.Pix[4*i+c])/255 - mean[c]) / std[c]
		}
	}
}
