// Package flags is what the command line of pinion adds to pflag: values with
// bounds or from a list, sizes such as 1GiB, groups of flags in the help,
// completion, and errors that say what a flag takes and which one was meant.
//
//	set := cmd.Flags()
//	flags.Group(set, "Loader", func() {
//		flags.Int(set, &epochs, "epochs", 1, flags.AtLeast(1), "passes over the dataset")
//		flags.Choice(set, &dtype, "dtype", "", []string{"f32", "f16"}, "element type")
//		flags.Size(set, &budget, "pin-budget", 0, "most bytes of pinned memory")
//	})
//
// [Setup] is called once for the root command, when it has all its commands.
package flags
