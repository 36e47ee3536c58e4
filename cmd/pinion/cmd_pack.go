package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/cli"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/flags"
	"github.com/pinion-gpu/pinion/dataset/shard"
	"github.com/pinion-gpu/pinion/dataset/tar"
	"github.com/pinion-gpu/pinion/internal/provenance"
	"github.com/pinion-gpu/pinion/internal/units"
)

func newPack() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pack FOLDER OUT",
		Short: "Pack a folder of photos into tar shards",
		Long: `Pack a folder of photos into tar shards in the WebDataset layout.

The files keep their order and their bytes. Each photo comes with the number of
its class, which is its sub-folder; each shard holds the names of all classes.
An index next to each shard lets "pinion feed" open it at once, also from a web
server. The same photos give the same bytes.

OUT must be new or empty. Nothing appears in it before all shards are written;
until then they are in a hidden folder beside it. If the run is killed, the next
run removes that folder.`,
		Example: `  pinion pack ~/photos ~/shards
  pinion pack ~/photos ~/shards --prefix train- --shard-size 1GiB
  pinion feed ~/shards --sampler blocks`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return cli.BadUsage(cmd, "name a folder of photos and one for the shards, not %s", units.Count(len(args), "argument"))
			}
			return nil
		},
	}
	var o shard.WriterOptions
	flags.Size(cmd.Flags(), &o.ShardBytes, "shard-size", 256<<20, "largest size of a shard")
	cmd.Flags().StringVar(&o.Prefix, "prefix", "shard-", "prefix of the shards' names")
	asJSON := cli.JSONFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return runPack(cmd, args[0], args[1], o, *asJSON) }
	return cmd
}

// packOutput is the JSON document of pinion pack.
type packOutput struct {
	provenance.Record
	Dataset   string  `json:"dataset"`
	OutFolder string  `json:"out_folder"`
	Samples   int     `json:"samples"`
	Shards    int     `json:"shards"`
	Seconds   float64 `json:"seconds"`
}

func runPack(cmd *cobra.Command, folder, out string, opts shard.WriterOptions, asJSON bool) (err error) {
	line := cli.NewProgress(cmd)
	defer line.Clear()
	start := time.Now()
	err = tar.Pack(cmd.Context(), folder, out, tar.PackOptions{
		Shards:   opts,
		Progress: func(done, total int) { line.Show(done, total, "packing "+folder) },
	})
	if err != nil {
		return err
	}
	took := time.Since(start)
	line.Clear()
	tar, err := tar.OpenFiles(cmd.Context(), out, tar.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tar.Close()) }()
	o := packOutput{provenance.Now(), folder, out, tar.Len(), len(tar.Shards()), took.Seconds()}
	if asJSON {
		return cli.PrintJSON(cmd, o)
	}
	return cli.PrintText(cmd, func(w io.Writer) {
		fmt.Fprintf(w, "%s in %s, %s\nNext:  pinion feed %s --sampler blocks\n", units.Count(o.Samples, "photo"),
			units.Count(o.Shards, "shard"), units.Seconds(o.Seconds), cli.ShellQuote(o.OutFolder))
	})
}
