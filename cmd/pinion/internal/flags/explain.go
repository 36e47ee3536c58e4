package flags

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// kinds says what flags take whose own errors are not for users.
var kinds = map[string]string{
	"bool":     "must be true or false",
	"uint64":   "must be a whole number from 0",
	"float64":  "must be a number",
	"duration": "must be a time such as 20ms or 1m30s",
}

// Explain makes an error of parsing flags one that says what to do.
func Explain(cmd *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	var unknown *pflag.NotExistError
	var empty *pflag.ValueRequiredError
	switch {
	case errors.As(err, &invalid):
		f := invalid.GetFlag()
		if kind, known := kinds[f.Value.Type()]; known {
			return fmt.Errorf("--%s is %q, but %s", f.Name, invalid.GetValue(), kind)
		}
		return fmt.Errorf("--%s is %q, but %w", f.Name, invalid.GetValue(), errors.Unwrap(invalid))
	case errors.As(err, &empty):
		name, _ := pflag.UnquoteUsage(empty.GetFlag())
		return fmt.Errorf("--%s needs a value: --%s %s", empty.GetFlag().Name, empty.GetFlag().Name, name)
	case errors.As(err, &unknown):
		if letters := unknown.GetSpecifiedShortnames(); letters != "" {
			return fmt.Errorf("%s has no flag -%s", cmd.CommandPath(), letters)
		}
		name := unknown.GetSpecifiedName()
		if near := nearestFlag(cmd, name); near != "" {
			return fmt.Errorf("%s has no flag --%s; did you mean --%s?", cmd.CommandPath(), name, near)
		}
		return fmt.Errorf("%s has no flag --%s", cmd.CommandPath(), name)
	}
	return err
}
