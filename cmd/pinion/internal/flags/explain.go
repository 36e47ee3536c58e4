package flags

import (
	"errors"
	"fmt"
	"strings"

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

// mustBe is how errors of the values of this package begin.
const mustBe = "must be "

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
		cause := errors.Unwrap(invalid)
		if !strings.HasPrefix(cause.Error(), mustBe) { // of a value from elsewhere
			return fmt.Errorf("--%s: %w", f.Name, cause)
		}
		return fmt.Errorf("--%s is %q, but %w", f.Name, invalid.GetValue(), cause)
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
