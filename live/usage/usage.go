// Package usage tells faults in a command line from everything else that can go
// wrong with a command.
//
//	c.Args = usage.NoArguments
//	c.SetFlagErrorFunc(usage.Flag)
//	return usage.Errorf("--output %q: must be table or json", output)
//	os.Exit(usage.ExitCode(err))
package usage

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// Error is a fault in the command line.
type Error struct{ error }

// Errorf returns a fault in words.
func Errorf(format string, args ...any) error { return Error{fmt.Errorf(format, args...)} }

// Of makes an error a fault in the command line.
func Of(err error) error { return Error{err} }

// Flag is what a command does with flags that cannot be read.
func Flag(_ *cobra.Command, err error) error { return Error{err} }

// NoArguments is for commands that take none.
func NoArguments(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Errorf("no arguments are taken, got %q", args[0])
	}
	return nil
}

// NoArgumentsTo is NoArguments for a verb among others, which it names.
func NoArgumentsTo(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Errorf("%s takes no arguments, got %q", c.Name(), args[0])
	}
	return nil
}

// ExitCode returns 0 for no error, 2 for a fault in the command line, else 1.
func ExitCode(err error) int {
	var wrong Error
	switch {
	case err == nil:
		return 0
	case errors.As(err, &wrong):
		return 2
	}
	return 1
}
