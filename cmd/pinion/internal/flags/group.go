package flags

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// groupKey is the annotation that says which group a flag is in.
const groupKey = "pinion_group"

// Group puts the flags that add adds to set under a title in the help, in the
// order in which they are added.
func Group(set *pflag.FlagSet, title string, add func()) {
	set.SortFlags = false
	before := map[string]bool{}
	set.VisitAll(func(f *pflag.Flag) { before[f.Name] = true })
	add()
	set.VisitAll(func(f *pflag.Flag) {
		if !before[f.Name] && f.Annotations[groupKey] == nil {
			_ = set.SetAnnotation(f.Name, groupKey, []string{title}) // the flag is there
		}
	})
}

// helpWidth is the width that help is wrapped to.
const helpWidth = 80

// usage prints how a command is used, with its flags in groups.
func usage(w io.Writer, cmd *cobra.Command) {
	fmt.Fprint(w, "Usage:\n")
	if cmd.Runnable() && (cmd.HasParent() || !cmd.HasAvailableSubCommands()) {
		fmt.Fprintf(w, "  %s\n", cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(w, "  %s COMMAND [flags]\n", cmd.CommandPath())
	}
	if cmd.Example != "" {
		fmt.Fprintf(w, "\nExamples:\n%s\n", cmd.Example)
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprint(w, "\nCommands:\n")
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() || sub.Name() == "help" {
				fmt.Fprintf(w, "  %-*s %s\n", sub.NamePadding(), sub.Name(), sub.Short)
			}
		}
	}
	for _, g := range groups(cmd) {
		fmt.Fprintf(w, "\n%s:\n%s", g.title, strings.TrimRight(g.set.FlagUsagesWrapped(helpWidth), "\n")+"\n")
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(w, "\n\"%s COMMAND --help\" explains a command.\n", cmd.CommandPath())
	}
}

type group struct {
	title string
	set   *pflag.FlagSet
}

// groups are the flags of a command: the groups in their order, then the rest.
func groups(cmd *cobra.Command) (list []group) {
	const rest = "Flags"
	last := group{rest, nil}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		title := rest
		if names := f.Annotations[groupKey]; names != nil {
			title = names[0]
		}
		to := &last
		if title != rest {
			i := slices.IndexFunc(list, func(g group) bool { return g.title == title })
			if i < 0 {
				i, list = len(list), append(list, group{title: title})
			}
			to = &list[i]
		}
		if to.set == nil {
			to.set = pflag.NewFlagSet(title, pflag.ContinueOnError)
			to.set.SortFlags = false
		}
		to.set.AddFlag(f)
	})
	if last.set == nil {
		return list
	}
	if len(list) > 0 {
		last.title = "Other flags"
	}
	return append(list, last)
}
