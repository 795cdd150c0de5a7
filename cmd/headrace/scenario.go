package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/headrace-dev/headrace/internal/scenario"
)

func scenarioCommand() *cobra.Command {
	var rewrite bool
	c := &cobra.Command{
		Use:   "scenario FILE|FOLDER...",
		Short: "play scenario files and show what happened",
		Long: `Play scenario files and show what happened. A file tells a story in the language of
docs/scenario.md and says what is expected; where it goes otherwise, the difference
is shown and the exit code is 1. A folder stands for all files below it.`,
		Example: "  headrace scenario scenarios/place\n  headrace scenario --rewrite mine.txt",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("scenario needs at least one file or folder")
			}
			files, err := scenario.Find(args...)
			if err != nil {
				return err
			}
			failed := 0
			for _, file := range files {
				ok, err := scenario.File(file, c.OutOrStdout(), rewrite)
				if err != nil {
					return err
				}
				if !ok {
					failed++
				}
			}
			if failed > 0 {
				return fmt.Errorf("%d of %d files went otherwise than expected", failed, len(files))
			}
			return nil
		},
	}
	c.Flags().BoolVar(&rewrite, "rewrite", false, "write what happened into the files as what is expected")
	return c
}
