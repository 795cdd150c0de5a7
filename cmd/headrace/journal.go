package main

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/journal"
	"github.com/headrace-dev/headrace/internal/sim"
)

func replayCommand() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "replay JOURNAL",
		Short: "decide again what a journal recorded, and compare",
		Long: `Decide again what a journal recorded, and compare. Every event goes into a new world,
every cycle is decided anew; the exit code is 1 where a plan differs from the recorded
one. A journal comes from sim --record or headrace-scheduler --record; a name that ends
in .gz is read as gzip. A last line that was cut off is left out.`,
		Example: "  headrace sim --scenario hetero --policy headrace --record day.jsonl.gz --report none\n  headrace replay day.jsonl.gz",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("replay needs one journal, got %d", len(args))
			}
			if output != "table" && output != "json" {
				return usagef("--output %s: must be table or json", output)
			}
			return replayFile(c.OutOrStdout(), args[0], output)
		},
	}
	c.Flags().StringVar(&output, "output", "table", "table or json")
	return c
}

func replayFile(w io.Writer, path, output string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	in := io.Reader(bufio.NewReader(file))
	if strings.HasSuffix(path, ".gz") {
		if in, err = gzip.NewReader(in); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	out, err := journal.Replay(path, in, func(h journal.Head) (*engine.Policy, error) {
		p, _, err := sim.Policy(h.Policy, h.Side)
		return p, err
	})
	if err != nil {
		return err
	}
	if output == "json" {
		if err := json.NewEncoder(w).Encode(out); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(w, "policy %s: %d events, %d cycles, %d plans differ\n", out.Policy, out.Events, out.Cycles, out.Differing)
		if out.End != "" {
			fmt.Fprintf(w, "the journal ends before the run did: %s\n", out.End)
		}
		if out.Torn {
			fmt.Fprintln(w, "its last line was cut off and is left out")
		}
	}
	if d := out.First; d != nil {
		return fmt.Errorf("%s:%d: cycle %d at %v: digest %s was recorded, now it is %s", path, d.Line, d.Cycle, d.At, d.Recorded, d.Got)
	}
	return nil
}

// recording is a journal being written: whole, or not at all.
type recording struct {
	*journal.Writer
	path string
	file *os.File
	zip  *gzip.Writer
}

func newRecording(path string) (*recording, error) {
	file, err := os.CreateTemp(filepath.Dir(path), ".journal-*")
	if err != nil {
		return nil, fmt.Errorf("write journal %s: %w", path, err)
	}
	r := &recording{path: path, file: file}
	if strings.HasSuffix(path, ".gz") {
		r.zip = gzip.NewWriter(file)
		r.Writer = journal.NewWriter(r.zip)
	} else {
		r.Writer = journal.NewWriter(file)
	}
	return r, nil
}

// keep puts the journal in its place.
func (r *recording) keep() error {
	err := r.Close()
	if r.zip != nil && err == nil {
		err = r.zip.Close()
	}
	return keepFile(r.file, r.path, err)
}

// drop removes what was written.
func (r *recording) drop() {
	r.file.Close()
	os.Remove(r.file.Name())
}

// writeWhole writes a file whole, or not at all.
func writeWhole(path string, write func(io.Writer) error) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".headrace-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return keepFile(file, path, write(file))
}

// keepFile closes a temporary file and gives it its name; after an error it is
// removed instead.
func keepFile(file *os.File, path string, err error) error {
	defer os.Remove(file.Name())
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Chmod(file.Name(), 0o644)
	}
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
