package flags

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Setup gives help and completion to root and all its commands. The help ends
// with footer.
func Setup(root *cobra.Command, footer string) {
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		usage(cmd.OutOrStderr(), cmd)
		fmt.Fprintf(cmd.OutOrStderr(), "\n%s\n", footer)
		return nil
	})
	complete(root)
	root.PersistentPreRun = func(cmd *cobra.Command, _ []string) {
		if cmd.Name() == cobra.ShellCompRequestCmd {
			unquote(root)
		}
	}
}

// unquote takes the quotes from the usage of all flags, which help needs and
// completion would show.
func unquote(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) { f.Usage = strings.ReplaceAll(f.Usage, "`", "") })
	for _, sub := range cmd.Commands() {
		unquote(sub)
	}
}

// complete registers completion for the values of flags.
func complete(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		var offer func() []string
		switch v := f.Value.(type) {
		case interface{ values() []string }:
			offer = v.values
		case *number, *numbers, *size, *sizes:
			offer = func() []string { return nil }
		default:
			if kinds[f.Value.Type()] == "" {
				return // a name, perhaps of a file
			}
			offer = func() []string { return nil }
		}
		_ = cmd.RegisterFlagCompletionFunc(f.Name, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return offer(), cobra.ShellCompDirectiveNoFileComp
		}) // fails for flags that have one
	})
	for _, sub := range cmd.Commands() {
		complete(sub)
	}
}
