package sharded_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/checkpoint/sharded"
	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/all"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/parallel/local"
	"github.com/pinion-gpu/pinion/parallel/local/localtest"
	"github.com/pinion-gpu/pinion/safetensors"
)

// state is values with their bytes.
type state map[string]struct {
	sharded.Value
	data []byte
}

func randomState(rng *rand.Rand) state {
	s := state{}
	for i := range 1 + rng.IntN(6) {
		v := sharded.Value{Name: fmt.Sprintf("layer.%d \"é\"", i), Type: []safetensors.DType{safetensors.F32, safetensors.BF16, safetensors.U8, safetensors.Bool}[rng.IntN(4)]}
		n := int64(1)
		for range rng.IntN(4) {
			v.Shape = append(v.Shape, rng.Int64N(6))
			n *= v.Shape[len(v.Shape)-1]
		}
		data := make([]byte, n*v.Type.Bits()/8)
		for j := range data {
			data[j] = byte(rng.Uint32())
		}
		s[v.Name] = struct {
			sharded.Value
			data []byte
		}{v, data}
	}
	return s
}

// pieces of a rank of what is cut at random places, the same on all ranks.
func (s state) pieces(seed uint64, rank, size int) (list []sharded.Piece) {
	for name, v := range s {
		rng := rand.New(rand.NewPCG(seed, uint64(name[6])))
		width := v.Type.Bits() / 8
		n := int64(len(v.data)) / width
		if n == 0 || rng.IntN(4) == 0 { // one has it all
			if rng.IntN(size) == rank {
				list = append(list, sharded.Piece{Name: name, Type: v.Type, Shape: v.Shape, N: n, Read: reader(v.data)})
			}
			continue
		}
		if row := randomRow(v.Shape, rng); row > 0 { // columns
			each := (row + int64(size) - 1) / int64(size)
			from := min(int64(rank)*each, row)
			to := min(from+each, row)
			list = append(list, sharded.Piece{Name: name, Type: v.Type, Shape: v.Shape, From: from, N: to - from, Row: row, Read: reader(columns(v.data, row*width, from*width, to*width))})
			continue
		}
		each := (n + int64(size) - 1) / int64(size)
		from := min(int64(rank)*each, n)
		to := min(from+each, n)
		list = append(list, sharded.Piece{Name: name, Type: v.Type, Shape: v.Shape, From: from, N: to - from, Read: reader(v.data[from*width : to*width])})
	}
	return list
}

// randomRow is how many elements the axes behind a random one have; 0 for all of them.
func randomRow(shape []int64, rng *rand.Rand) int64 {
	row := int64(1)
	for _, d := range shape[rng.IntN(len(shape)+1):] {
		row *= d
	}
	if rng.IntN(2) == 0 {
		return 0
	}
	return row
}

// columns are bytes from one to another of each row.
func columns(data []byte, row, from, to int64) (part []byte) {
	for ; len(data) > 0; data = data[row:] {
		part = append(part, data[from:to]...)
	}
	return part
}

func reader(data []byte) func([]byte) error {
	return func(to []byte) error {
		if len(to) != len(data) {
			return fmt.Errorf("%d bytes are asked for, of %d", len(to), len(data))
		}
		copy(to, data)
		return nil
	}
}

// check compares a folder with what was saved, by random ranges.
func (s state) check(folder string, rng *rand.Rand) error {
	ck, err := sharded.Open(folder)
	if err != nil {
		return err
	}
	defer ck.Close()
	if len(ck.Values()) != len(s) {
		return fmt.Errorf("%d values, not %d", len(ck.Values()), len(s))
	}
	for _, got := range ck.Values() {
		want := s[got.Name]
		if got.Type != want.Type || fmt.Sprint(got.Shape) != fmt.Sprint(want.Shape) {
			return fmt.Errorf("%v, not %v", got, want.Value)
		}
		width := int(got.Type.Bits() / 8)
		for range 5 {
			from := rng.IntN(len(want.data)/width + 1)
			to := from + rng.IntN(len(want.data)/width-from+1)
			data := make([]byte, (to-from)*width)
			if err := ck.Read(context.Background(), got.Name, int64(from), data); err != nil {
				return err
			}
			if !bytes.Equal(data, want.data[from*width:to*width]) {
				return fmt.Errorf("%s: elements %d to %d are others", got.Name, from, to)
			}
		}
		if len(want.data) == 0 {
			continue
		}
		p := sharded.Piece{Name: got.Name, Type: got.Type, Shape: got.Shape, Row: randomRow(got.Shape, rng)}
		row := cmp.Or(p.Row, int64(len(want.data)/width))
		p.From = rng.Int64N(row + 1)
		p.N = rng.Int64N(row - p.From + 1)
		part := columns(want.data, row*int64(width), p.From*int64(width), (p.From+p.N)*int64(width))
		data := make([]byte, len(part))
		if err := ck.ReadPiece(context.Background(), p, data); err != nil {
			return err
		}
		if !bytes.Equal(data, part) {
			return fmt.Errorf("%+v is another", p)
		}
	}
	return nil
}

// What any number of ranks has saved is there, whatever was saved before, and nothing else
// is left in the folder.
func TestRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	folder := filepath.Join(t.TempDir(), "a", "b")
	defer sharded.SetAtOnce(16)()
	for range 60 {
		s, size, seed := randomState(rng), 1+rng.IntN(5), rng.Uint64()
		meta := map[string]string{"step": fmt.Sprint(seed)}
		for _, err := range localtest.Run(t, size, "host:4MiB", func(c parallel.Comm) error {
			return sharded.Save(t.Context(), folder, c, s.pieces(seed, c.Rank(), size), sharded.SaveOptions{Meta: meta})
		}) {
			testkit.OK(t, err)
		}
		testkit.OK(t, s.check(folder, rng))
		ck := testkit.Must(sharded.Open(folder))(t)
		if ck.Ranks != size || ck.Meta["step"] != meta["step"] {
			t.Fatalf("%d ranks, %v", ck.Ranks, ck.Meta)
		}
		testkit.OK(t, ck.Close())
		if list := testkit.Must(os.ReadDir(folder))(t); len(list) != size+1 {
			t.Fatalf("%d files of %d ranks: %v", len(list), size, list)
		}
	}
}

// A save that fails on one rank fails on all, and leaves what was there.
func TestSaveFails(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	s := randomState(rng)
	for len(s) < 2 {
		s = randomState(rng)
	}
	folder := t.TempDir()
	testkit.OK(t, sharded.Save(t.Context(), folder, nil, s.pieces(1, 0, 1), sharded.SaveOptions{}))
	broken := errors.New("the device is gone")
	hole := sharded.Piece{Name: "hole", Type: safetensors.F32, Shape: []int64{10}, From: 1, N: 9, Read: reader(make([]byte, 36))}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name   string
		ctx    context.Context
		pieces func(rank int) []sharded.Piece
		want   string
		is     error
	}{
		{"read", t.Context(), func(rank int) []sharded.Piece {
			list := s.pieces(2, rank, 3)
			if rank == 2 {
				list = append(list, sharded.Piece{Name: "w", Type: safetensors.F32, Shape: []int64{1}, N: 1, Read: func([]byte) error { return broken }})
			}
			return list
		}, `rank 2: "w": the device is gone`, nil},
		{"hole", t.Context(), func(rank int) []sharded.Piece { return []sharded.Piece{hole}[:max(1-rank, 0)] }, `rank 0: bad argument: pieces of ranks do not go together: damaged: "hole": behind element 0 comes a piece from element 1`, nil},
		{"context", canceled, func(rank int) []sharded.Piece { return s.pieces(2, rank, 3) }, "rank ", nil},
		{"range", t.Context(), func(int) []sharded.Piece {
			return []sharded.Piece{{Name: "w", Type: safetensors.F32, Shape: []int64{4}, From: 2, N: 3, Read: reader(nil)}}
		}, `"w": elements 2 to 5 of shape [4]`, sharded.ErrArgument},
		{"twice", t.Context(), func(int) []sharded.Piece { return append(s.pieces(2, 0, 1), s.pieces(2, 0, 1)...) }, "stands twice", sharded.ErrArgument},
	} {
		for rank, err := range localtest.Run(t, 3, "host:4MiB", func(comm parallel.Comm) error {
			return sharded.Save(c.ctx, folder, comm, c.pieces(comm.Rank()), sharded.SaveOptions{})
		}) {
			if err == nil || !strings.Contains(err.Error(), c.want) || c.is != nil && rank == 0 && !errors.Is(err, c.is) {
				t.Errorf("%s: rank %d: %v, want %q", c.name, rank, err, c.want)
			}
		}
		testkit.OK(t, s.check(folder, rng))
		if list := testkit.Must(os.ReadDir(folder))(t); len(list) != 2 {
			t.Errorf("%s: left behind: %v", c.name, list)
		}
	}
}

// Folders that are not whole are refused, and the error says why.
func TestDamaged(t *testing.T) {
	s := randomState(rand.New(rand.NewPCG(5, 6)))
	folder := t.TempDir()
	save := func(folder string) {
		for _, err := range localtest.Run(t, 3, "host:4MiB", func(c parallel.Comm) error {
			return sharded.Save(t.Context(), folder, c, s.pieces(1, c.Rank(), 3), sharded.SaveOptions{})
		}) {
			testkit.OK(t, err)
		}
	}
	save(folder)
	other := t.TempDir()
	save(other)
	first := func(folder string) string {
		return testkit.Must(filepath.Glob(filepath.Join(folder, "*-00001-of-*")))(t)[0]
	}
	for _, c := range []struct {
		name string
		do   func(folder string) error
		want string
		is   error
	}{
		{"missing", func(folder string) error { return os.Remove(first(folder)) }, "file 1 of 3: ", fs.ErrNotExist},
		{"another save's", func(folder string) error {
			data, err := os.ReadFile(first(other))
			return errors.Join(err, os.WriteFile(first(folder), data, 0o666))
		}, "is of the save", sharded.ErrDamaged},
		{"cut", func(folder string) error { return os.Truncate(first(folder), 100) }, "file 1 of 3: ", nil},
		{"no index", func(folder string) error { return os.Remove(filepath.Join(folder, sharded.IndexName)) }, sharded.IndexName, fs.ErrNotExist},
		{"another index", func(folder string) error {
			return os.WriteFile(filepath.Join(folder, sharded.IndexName), []byte(`{"weight_map": {}}`), 0o666)
		}, "is no index of a sharded checkpoint", sharded.ErrDamaged},
		{"later index", func(folder string) error {
			return os.WriteFile(filepath.Join(folder, sharded.IndexName), []byte(`{"pinion_sharded_checkpoint": 9}`), 0o666)
		}, "is of version 9", errors.ErrUnsupported},
		{"path", func(folder string) error {
			return os.WriteFile(filepath.Join(folder, sharded.IndexName), []byte(`{"pinion_sharded_checkpoint": 1, "files": [{"name": "../state-x"}]}`), 0o666)
		}, "which is no file of a rank", sharded.ErrDamaged},
		{"twice", func(folder string) error {
			path := filepath.Join(folder, sharded.IndexName)
			var x map[string]any
			data, err := os.ReadFile(path)
			if err := errors.Join(err, json.Unmarshal(data, &x)); err != nil {
				return err
			}
			files := x["files"].([]any)
			x["files"] = append(files, files[1])
			data, err = json.Marshal(x)
			return errors.Join(err, os.WriteFile(path, data, 0o666))
		}, "comes a piece from element", sharded.ErrDamaged},
	} {
		t.Run(c.name, func(t *testing.T) {
			copied := filepath.Join(t.TempDir(), "copy")
			testkit.OK(t, os.CopyFS(copied, os.DirFS(folder)))
			testkit.OK(t, c.do(copied))
			_, err := sharded.Open(copied)
			if err == nil || !strings.Contains(err.Error(), c.want) || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestRead(t *testing.T) {
	folder := t.TempDir()
	testkit.OK(t, sharded.Save(t.Context(), folder, nil, []sharded.Piece{{Name: "w", Type: safetensors.F32, Shape: []int64{2, 3}, N: 6, Read: reader(make([]byte, 24))}}, sharded.SaveOptions{}))
	ck := testkit.Must(sharded.Open(folder))(t)
	defer ck.Close()
	if v, ok := ck.Find("w"); !ok || v.Type != safetensors.F32 {
		t.Errorf("%v", v)
	}
	for _, c := range []struct {
		name        string
		from, bytes int64
		want        string
	}{
		{"v", 0, 4, `it has no "v"`},
		{"w", math.MaxInt64, 8, "which has 6"},
		{"w", 4, 12, `12 bytes from element 4 on of "w", which has 6 of 4 bytes`},
		{"w", -1, 4, "4 bytes from element -1"},
		{"w", 0, 5, "5 bytes"},
	} {
		testkit.WantError(t, c.name, ck.Read(t.Context(), c.name, c.from, make([]byte, c.bytes)), sharded.ErrArgument, c.want)
	}
	for what, p := range map[string]sharded.Piece{
		"no rows":        {Name: "w", Type: safetensors.F32, Shape: []int64{2, 3}, N: 2, Row: 4},
		"a row too long": {Name: "w", Type: safetensors.F32, Shape: []int64{2, 3}, From: 2, N: 2, Row: 3},
		"another shape":  {Name: "w", Type: safetensors.F32, Shape: []int64{3, 2}, N: 2},
		"another type":   {Name: "w", Type: safetensors.F16, Shape: []int64{2, 3}, N: 4},
		"another size":   {Name: "w", Type: safetensors.F32, Shape: []int64{2, 3}, N: 2, Row: 3},
	} {
		testkit.WantError(t, what, ck.ReadPiece(t.Context(), p, make([]byte, 8)), sharded.ErrArgument, `"w"`)
	}
}

// Parts of narrow rows take little memory, however far they lie from each other.
func TestReadColumns(t *testing.T) {
	const rows, columns = 1 << 14, 1 << 10
	data := make([]byte, rows*columns)
	for i := range data {
		data[i] = byte(i * 7 / 3)
	}
	folder := t.TempDir()
	p := sharded.Piece{Name: "w", Type: safetensors.U8, Shape: []int64{rows, columns}}
	whole := p
	whole.N, whole.Read = rows*columns, reader(data)
	testkit.OK(t, sharded.Save(t.Context(), folder, nil, []sharded.Piece{whole}, sharded.SaveOptions{}))
	ck := testkit.Must(sharded.Open(folder))(t)
	defer ck.Close()
	p.Row, p.From, p.N = columns, 5, 3
	got := make([]byte, 3*rows)
	defer sharded.SetAtOnce(1 << 16)()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	testkit.OK(t, ck.ReadPiece(t.Context(), p, got))
	runtime.ReadMemStats(&after)
	for i := range rows {
		if !bytes.Equal(got[3*i:3*i+3], data[i*columns+5:i*columns+8]) {
			t.Fatalf("row %d is another", i)
		}
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 4<<20 {
		t.Errorf("%d bytes were allocated", n)
	}
}

// dying is a rank that is gone when a save comes to its last meeting.
type dying struct {
	parallel.Comm
	meetings int
	all      []parallel.Comm
}

func (d *dying) AllGather(s device.Stream, parts ...parallel.Part) error {
	if d.meetings--; d.meetings < 0 {
		for _, c := range d.all {
			c.Abort(errors.New("killed"))
		}
		return errors.New("killed")
	}
	return d.Comm.AllGather(s, parts...)
}

// Wherever in a save a rank is killed, the folder has the save before or the new one, whole.
func TestKilled(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	before, now := randomState(rng), randomState(rng)
	for meetings := range 5 {
		folder := t.TempDir()
		testkit.OK(t, sharded.Save(t.Context(), folder, nil, before.pieces(1, 0, 1), sharded.SaveOptions{}))
		var devices []device.Device
		for range 3 {
			devices = append(devices, testkit.Must(device.Open("host:4MiB"))(t))
		}
		comms := testkit.Must(local.New(devices...))(t)
		var all sync.WaitGroup
		failed := make([]error, 3)
		for i, c := range comms {
			all.Go(func() {
				if i == 1 {
					c = &dying{c, meetings, comms}
				}
				failed[i] = sharded.Save(t.Context(), folder, c, now.pieces(1, i, 3), sharded.SaveOptions{})
			})
		}
		all.Wait()
		for _, dev := range devices {
			testkit.OK(t, dev.Close())
		}
		if meetings < 4 && failed[1] == nil || meetings == 4 && errors.Join(failed...) != nil {
			t.Fatalf("%d meetings: %v", meetings, failed)
		}
		if err := now.check(folder, rng); err != nil {
			if meetings == 4 {
				t.Error(err)
			}
			testkit.OK(t, before.check(folder, rng))
		}
	}
}

// Other files in the folder stay, and so do those of a save that is under way.
func TestOthersFiles(t *testing.T) {
	folder := t.TempDir()
	s := randomState(rand.New(rand.NewPCG(11, 12)))
	save := func() {
		testkit.OK(t, sharded.Save(t.Context(), folder, nil, s.pieces(1, 0, 1), sharded.SaveOptions{}))
	}
	save()
	mine, underWay := filepath.Join(folder, "state-of-the-ema.safetensors"), filepath.Join(folder, "state-aaaaaaaaaaaa-00001-of-00002.safetensors")
	for _, path := range []string{mine, underWay} {
		testkit.OK(t, os.WriteFile(path, nil, 0o666))
	}
	long := time.Now().Add(-time.Hour)
	testkit.OK(t, os.Chtimes(filepath.Join(folder, sharded.IndexName), long, long))
	save()
	for _, path := range []string{mine, underWay} {
		_, err := os.Stat(path)
		testkit.OK(t, err)
	}
	testkit.OK(t, os.Chtimes(underWay, long, long)) // it was left by a save that failed
	save()
	if _, err := os.Stat(underWay); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: %v", underWay, err)
	}
	testkit.OK(t, errors.Join(s.check(folder, rand.New(rand.NewPCG(1, 1)))))
	for want, o := range map[string]struct {
		piece sharded.Piece
		meta  map[string]string
	}{
		"Piece.Read is nil": {piece: sharded.Piece{Name: "w", Type: safetensors.U8, Shape: []int64{1}, N: 1}},
		"is no UTF-8":       {piece: sharded.Piece{Name: "w", Type: safetensors.U8, Shape: []int64{1}, N: 1, Read: reader([]byte{1})}, meta: map[string]string{"a": "\xff"}},
	} {
		testkit.WantError(t, want, sharded.Save(t.Context(), folder, nil, []sharded.Piece{o.piece}, sharded.SaveOptions{Meta: o.meta}), sharded.ErrArgument, want)
	}
}
