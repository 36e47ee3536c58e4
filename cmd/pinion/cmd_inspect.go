package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/checkpoint"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/cli"
	"github.com/pinion-gpu/pinion/internal/provenance"
	"github.com/pinion-gpu/pinion/internal/texttable"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/safetensors"
)

func newInspect() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "inspect FILE…",
		Short: "List the tensors of a checkpoint",
		Long: `List the tensors of a checkpoint with their types, shapes and sizes, and check
that its files are whole. Only headers are read.

FILE is a .safetensors file, an index of shards (*.safetensors.index.json), or a
folder with either. Several files are one checkpoint.`,
		Example: `  pinion inspect model.safetensors
  pinion inspect ~/models/llama
  pinion inspect ~/models/llama --json`,
		Args:              checkpointArgs,
		ValidArgsFunction: completeCheckpoints,
	}
	asJSON := cli.JSONFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ck, err := safetensors.Open(args...)
		if err != nil {
			return err
		}
		defer ck.Close() // files that are only read
		out := newInspectOutput(args, ck)
		if *asJSON {
			return cli.PrintJSON(cmd, out)
		}
		return cli.PrintText(cmd, out.print)
	}
	return cmd
}

func checkpointArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cli.BadUsage(cmd, "name a .safetensors file, an index or a folder")
	}
	return nil
}

func completeCheckpoints(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"safetensors", "json"}, cobra.ShellCompDirectiveFilterFileExt
}

// inspectOutput is the JSON document of pinion inspect.
type inspectOutput struct {
	provenance.Record
	Checkpoint string            `json:"checkpoint"`
	Tensors    int               `json:"tensors"`
	Parameters int64             `json:"parameters"` // elements of all tensors
	Bytes      int64             `json:"bytes"`
	DTypes     []inspectDType    `json:"dtypes"`
	Files      []inspectFile     `json:"files"`
	Metadata   map[string]string `json:"metadata"` // of all files; null: none
	Rows       []inspectRow      `json:"rows"`
}

type inspectDType struct {
	DType   string `json:"dtype"`
	Tensors int    `json:"tensors"`
	Bytes   int64  `json:"bytes"`
}

type inspectFile struct {
	Name        string `json:"name"`
	Tensors     int    `json:"tensors"`
	Bytes       int64  `json:"bytes"`
	HeaderBytes int64  `json:"header_bytes"`
}

type inspectRow struct {
	Name        string  `json:"name"`
	DType       string  `json:"dtype"`
	Shape       []int64 `json:"shape"`
	Bytes       int64   `json:"bytes"`
	File        int     `json:"file_number"` // in files, from 0 on
	OffsetBytes int64   `json:"offset_bytes"`
}

func newInspectOutput(args []string, ck *safetensors.Checkpoint) *inspectOutput {
	o := &inspectOutput{Record: provenance.Now(), Checkpoint: strings.Join(args, " "), Bytes: ck.Bytes(),
		DTypes: []inspectDType{}, Files: []inspectFile{}, Rows: []inspectRow{}}
	number := map[*safetensors.File]int{}
	for i, f := range ck.Files() {
		number[f] = i
		o.Files = append(o.Files, inspectFile{Name: f.Path(), Bytes: f.Size(), HeaderBytes: f.Header.Bytes})
		if o.Metadata == nil && f.Metadata != nil {
			o.Metadata = map[string]string{}
		}
		maps.Copy(o.Metadata, f.Metadata)
	}
	dtypes := map[safetensors.DType]int{}
	// In the order of the layers; in a file tensors are by type and then by name.
	for _, l := range checkpoint.Layers(ck.Tensors()) {
		for _, t := range l.Tensors {
			o.Rows = append(o.Rows, inspectRow{Name: t.Name, DType: string(t.DType), Shape: t.Shape, Bytes: t.Bytes, File: number[t.File], OffsetBytes: t.Offset})
			o.Tensors++
			o.Parameters += t.Elements()
			o.Files[number[t.File]].Tensors++
			i, ok := dtypes[t.DType]
			if !ok {
				i = len(o.DTypes)
				dtypes[t.DType] = i
				o.DTypes = append(o.DTypes, inspectDType{DType: string(t.DType)})
			}
			o.DTypes[i].Tensors++
			o.DTypes[i].Bytes += t.Bytes
		}
	}
	slices.SortFunc(o.DTypes, func(a, b inspectDType) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.DType, b.DType))
	})
	return o
}

func (o *inspectOutput) print(w io.Writer) {
	fmt.Fprintf(w, "%s: %s, %s parameters, %s", o.Checkpoint, units.Count(o.Tensors, "tensor"), units.Grouped(o.Parameters), units.Bytes(o.Bytes))
	if len(o.Files) > 1 {
		fmt.Fprintf(w, " in %s", units.Count(len(o.Files), "file"))
	}
	fmt.Fprintln(w)
	for _, key := range slices.Sorted(maps.Keys(o.Metadata)) {
		fmt.Fprintf(w, "%s: %.200q\n", printable(key), o.Metadata[key])
	}
	fmt.Fprintln(w)

	t := texttable.New("TENSOR", "DTYPE", "SHAPE", ">SIZE")
	for _, r := range o.Rows {
		t.Add(printable(r.Name), r.DType, shape(r.Shape), units.Bytes(r.Bytes))
	}
	t.Write(w)

	if len(o.DTypes) > 1 {
		t := texttable.New("DTYPE", ">TENSORS", ">SIZE")
		for _, d := range o.DTypes {
			t.Add(d.DType, fmt.Sprint(d.Tensors), units.Bytes(d.Bytes))
		}
		fmt.Fprintln(w)
		t.Write(w)
	}
	if len(o.Files) > 1 {
		t := texttable.New("FILE", ">TENSORS", ">SIZE")
		for _, f := range o.Files {
			t.Add(o.short(f.Name), fmt.Sprint(f.Tensors), units.Bytes(f.Bytes))
		}
		fmt.Fprintln(w)
		t.Write(w)
	}
}

// short leaves out the folder of a file if it is that of all files.
func (o *inspectOutput) short(name string) string {
	dir := filepath.Dir(name)
	if slices.ContainsFunc(o.Files, func(f inspectFile) bool { return filepath.Dir(f.Name) != dir }) {
		return name
	}
	return filepath.Base(name)
}

// printable is a name without what a terminal would act upon.
func printable(name string) string {
	quoted := fmt.Sprintf("%q", name)
	if inside := quoted[1 : len(quoted)-1]; inside == name {
		return name
	}
	return quoted
}

// shape is a shape as people write it: 4096x4096.
func shape(dims []int64) string {
	if len(dims) == 0 {
		return "scalar"
	}
	var b strings.Builder
	for i, d := range dims {
		if i > 0 {
			b.WriteByte('x')
		}
		fmt.Fprint(&b, d)
	}
	return b.String()
}
