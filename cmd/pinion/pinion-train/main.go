// Command pinion-train is "pinion train", which runs it: it trains a small GPT on a text,
// or a ResNet on photos, by GoMLX on Pinion.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/cli"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/dashboard"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/flags"
	_ "github.com/pinion-gpu/pinion/device/all"
)

func main() { os.Exit(cli.Execute(newRoot(os.Args[1:]))) }

// newRoot is "pinion train" with its arguments.
func newRoot(args []string) *cobra.Command {
	root := &cobra.Command{Use: "pinion", SilenceErrors: true, SilenceUsage: true}
	root.SetArgs(append([]string{"train"}, args...))
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return cli.BadUsage(cmd, "%w", flags.Explain(cmd, err))
	})
	root.AddCommand(cli.Offering(dashboard.Serving(newTrain())))
	flags.Setup(root, cli.ExitCodes)
	return root
}
