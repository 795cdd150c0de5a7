package kube

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/journal"
)

// replayed plays a journal back.
func replayed(t *testing.T, path string) journal.Outcome {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	in := io.Reader(file)
	if strings.HasSuffix(path, ".gz") {
		if in, err = gzip.NewReader(file); err != nil {
			t.Fatal(err)
		}
	}
	out, err := journal.Replay(path, in, func(h journal.Head) (*engine.Policy, error) { return PolicyNamed(h.Policy) })
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The journal of whatever happens replays digest for digest, and what was handed
// on is readable before the journal is closed.
func TestBooksReplay(t *testing.T) {
	for seed := range int64(20) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), []string{"j.jsonl", "j.jsonl.gz"}[seed%2])
			w, r := newTruth(t), rand.New(rand.NewSource(seed))
			var err error
			if w.books.record, err = record(path, DefaultRecordLimit, w.books.turns[0].Policy); err != nil {
				t.Fatal(err)
			}
			for i := range 4 {
				w.putNode(fmt.Sprint("node-", i), 8, 4, "", true)
			}
			for range 300 {
				step(w, r)
			}
			if err := w.books.record.beat(); err != nil {
				t.Fatal(err)
			}
			if got := replayed(t, path); got.Differing != 0 || got.Cycles != int(w.books.cycle) {
				t.Errorf("before the end: %+v, want %d cycles and no difference", got, w.books.cycle)
			}
			w.settleAll()
			if err := w.books.record.end(); err != nil {
				t.Fatal(err)
			}
			if got := replayed(t, path); got.Differing != 0 || got.Cycles != int(w.books.cycle) || got.Torn || got.End != "" {
				t.Errorf("at the end: %+v, want %d cycles and no difference", got, w.books.cycle)
			}
		})
	}
}

// A journal ends at its limit and says so once; the one of the start before is
// kept.
func TestRecordLimit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	const limit = 4000
	for round := range 2 {
		w, r := newTruth(t), rand.New(rand.NewSource(1))
		var err error
		if w.books.record, err = record(path, limit, w.books.turns[0].Policy); err != nil {
			t.Fatal(err)
		}
		for range 200 {
			step(w, r)
		}
		if err := w.books.record.beat(); !errors.Is(err, errRecordFull) {
			t.Errorf("round %d: said %v, want %v", round, err, errRecordFull)
		}
		if err := w.books.record.beat(); err != nil {
			t.Errorf("round %d: said %v again", round, err)
		}
		if err := w.books.record.end(); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []string{path, path + ".1"} {
		if got := replayed(t, p); got.Differing != 0 || got.End == "" {
			t.Errorf("%s: %+v, want an end and no difference", p, got)
		}
		if info, err := os.Stat(p); err != nil || info.Size() > limit {
			t.Errorf("%s: %v, %v; want at most %d bytes", p, info.Size(), err, limit)
		}
	}
}
