package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/cli"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/flags"
)

// shells are those that completion can be written for.
var shells = []string{"bash", "zsh", "fish", "powershell"}

func newCompletion() *cobra.Command {
	return &cobra.Command{
		Use:   "completion " + strings.Join(shells, "|"),
		Short: "Print a script that completes commands, flags and their values",
		Long: `Print a script with which a shell completes the commands of pinion, their flags,
and the values of flags: devices, samplers, element types and so on.

To have it in every new shell, install the script where the shell looks for it:

  bash        pinion completion bash > /etc/bash_completion.d/pinion
  zsh         pinion completion zsh > "${fpath[1]}/_pinion"
  fish        pinion completion fish > ~/.config/fish/completions/pinion.fish
  powershell  pinion completion powershell >> $PROFILE

bash needs the package bash-completion, and zsh "autoload -U compinit; compinit"
in ~/.zshrc.`,
		Example: `  pinion completion zsh > "${fpath[1]}/_pinion"
  source <(pinion completion bash)    # in this shell only`,
		DisableFlagsInUseLine: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.BadUsage(cmd, "name one shell: %s", flags.Or(shells))
			}
			return nil
		},
		ValidArgs: shells,
		RunE: func(cmd *cobra.Command, args []string) error {
			out := cmd.OutOrStdout()
			switch args[0] {
			case "bash":
				return cmd.Root().GenBashCompletionV2(out, true)
			case "zsh":
				return cmd.Root().GenZshCompletion(out)
			case "fish":
				return cmd.Root().GenFishCompletion(out, true)
			case "powershell":
				return cmd.Root().GenPowerShellCompletionWithDesc(out)
			}
			return cli.BadUsage(cmd, "there is no completion for %q, only for %s", args[0], flags.Or(shells))
		},
	}
}
