package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/benchcmd"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/cli"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/dashboard"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/flags"
	_ "github.com/pinion-gpu/pinion/device/all"
	"github.com/pinion-gpu/pinion/internal/provenance"
)

func main() { os.Exit(cli.Execute(newRoot())) }

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:     "pinion",
		Short:   "Keep GPUs fed",
		Version: provenance.Now().Version,
		Long: `Pinion feeds datasets to a GPU, finds the best settings for that, and measures
what the link between host and GPU can do.

Without a GPU every command works on the host backend.`,
		Example: `  pinion feed                    # a folder of sample photos
  pinion feed ~/photos --batch 128
  pinion tune ~/photos --step-time 20ms
  pinion pack ~/photos ~/shards
  pinion load ~/models/llama
  pinion train book.txt
  pinion devices
  pinion doctor
  pinion bench link
  pinion bench --report link.html`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cli.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("pinion {{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return cli.BadUsage(cmd, "%w", flags.Explain(cmd, err))
	})
	root.SetHelpCommand(newHelp(root))
	for _, long := range []*cobra.Command{newFeed(), newTune(), newPack(), benchcmd.New(), newReplay(), newLoad()} {
		root.AddCommand(cli.Offering(dashboard.Serving(long)))
	}
	root.AddCommand(newDevices(), newDoctor(), newTrain(), newTop(), newInspect(), newCompletion(), newVersion())
	root.CompletionOptions.DisableDefaultCmd = true // newCompletion is in its place
	flags.Setup(root, cli.ExitCodes)
	return root
}
