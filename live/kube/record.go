package kube

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/journal"
	"github.com/headrace-dev/headrace/internal/rivals"
)

// DefaultRecordLimit is where a journal ends unless told otherwise: at a few
// hundred bytes an event, some million events.
const DefaultRecordLimit = 1 << 30

// recordMode is for the file of a journal, which holds the names of pods.
const recordMode = 0o600

// recording is a journal that is being written to a file.
type recording struct {
	*journal.Writer
	path  string
	below []interface{ Flush() error } // what the text passes on its way, the nearest first
	close []io.Closer
	ended bool // the owner was told that the limit is met, or of a failure
}

// record begins a journal at path, compressed when the name ends in .gz. One that
// is there already is kept as path.1.
func record(path string, limit int64, policy *engine.Policy) (*recording, error) {
	if err := os.Rename(path, path+".1"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("keep the journal %s as %s.1: %w", path, path, err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, recordMode)
	if err != nil {
		return nil, fmt.Errorf("begin the journal: %w", err)
	}
	r := &recording{path: path, close: []io.Closer{file}}
	to := io.Writer(file)
	if strings.HasSuffix(path, ".gz") {
		buffer := bufio.NewWriter(file)
		zip := gzip.NewWriter(buffer)
		r.below = []interface{ Flush() error }{zip, buffer}
		r.close = []io.Closer{zip, flusher{buffer}, file}
		to = zip
	}
	r.Writer = journal.NewWriter(to)
	r.Limit(limit)
	r.Begin(policy, rivals.Side{})
	return r, nil
}

// flusher makes a buffer something that is closed.
type flusher struct{ *bufio.Writer }

func (f flusher) Close() error { return f.Flush() }

// beat hands on what there is, down to the file. It says once that the journal is
// at its end.
func (r *recording) beat() error {
	if r == nil || r.ended {
		return nil
	}
	err := r.Flush()
	for _, f := range r.below {
		if err == nil {
			err = f.Flush()
		}
	}
	if r.ended = err != nil || r.Full(); !r.ended {
		return nil
	}
	if err == nil {
		err = errRecordFull
	}
	return fmt.Errorf("nothing more is recorded in %s: %w", r.path, err)
}

// errRecordFull ends a journal.
var errRecordFull = errors.New("it is as large as it may become")

// end closes the journal.
func (r *recording) end() error {
	if r == nil {
		return nil
	}
	err := r.Flush()
	for _, c := range r.close {
		err = errors.Join(err, c.Close())
	}
	if err != nil {
		return fmt.Errorf("end the journal %s: %w", r.path, err)
	}
	return nil
}
