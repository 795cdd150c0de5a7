// Package beliefs writes what a scheduler has learned as bytes, and reads it back.
//
//	data, err := beliefs.Encode(&b)
//	b, err := beliefs.Decode(data)
//
// The bytes are a line that names format and version, the SHA-256 of what follows,
// and gzipped JSON. Requests are written out by content, because the ids of shapes
// are those of one run. The package is free of clients; where the bytes are kept is
// left to package kube.
package beliefs

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/world"
)

// Version is the version of the format. Readers refuse others.
const Version = 1

const (
	// MostBytes bounds what is written: an object of the API server is at most
	// 1 MiB, with its frame.
	MostBytes = 900 << 10
	// mostText bounds what is read back out of a compressed text.
	mostText = 64 << 20
	// mostAsks bounds how many requests are kept.
	mostAsks = 20_000
)

const frame = "headrace-beliefs "

// Beliefs are what was learned.
type Beliefs struct {
	// At is until when it was learned, in Unix microseconds.
	At   int64   `json:"at"`
	Next int64   `json:"next"`
	Left int64   `json:"left"`
	Asks []Ask   `json:"asks"`
	Fill []Price `json:"fill,omitempty"`
	// Epoch is when the last quota epoch began, in Unix microseconds, and Queues what
	// queues used before it.
	Epoch  int64   `json:"epoch,omitempty"`
	Queues []Queue `json:"queues,omitempty"`
	// Runs are the last run times of each kind, and Words how far what queues declared was
	// off.
	Runs  []Runs `json:"runs,omitempty"`
	Words []Word `json:"words,omitempty"`
	// Ended is how work ended that is over: other work may come after it.
	Ended []Ended `json:"ended,omitempty"`
	// Arrivals tell how often work comes that needs images.
	Arrivals *Arrivals `json:"arrivals,omitempty"`
	// Starts tell how true foretold starts were.
	Starts []Cell `json:"starts,omitempty"`
}

// Cell is of waits that are alike, and Day how they turned out on one: how many in each
// grain of the quotient of true and foretold wait.
type Cell struct {
	Key  uint64 `json:"key"`
	Days []Day  `json:"days"`
}

// Day is one of a cell, counted from 1970.
type Day struct {
	Day    int64   `json:"day"`
	Grains []int32 `json:"grains"`
	Count  []int32 `json:"count"`
}

// Arrivals are those of kinds, discounted, in millionths, with the images that they need.
type Arrivals struct {
	Epoch  int64      `json:"epoch"`
	Epochs int64      `json:"epochs"`
	Images []Image    `json:"images"`
	Kinds  []Arriving `json:"kinds"`
}

// Image is one, in bytes. Private says that pods bring secrets to pull it with, Local that
// they have it never pulled.
type Image struct {
	Name    string               `json:"name"`
	Sort    cluster.ArtifactSort `json:"sort,omitempty"`
	Size    int64                `json:"size"`
	Private bool                 `json:"private,omitempty"`
	Local   bool                 `json:"local,omitempty"`
}

// Arriving is a kind. Images are the positions of what it needs, Request what it asked for
// last, and Asked the kind that goes with that.
type Arriving struct {
	Kind    string        `json:"kind"`
	Count   int64         `json:"count"`
	Images  []int         `json:"images"`
	Asked   string        `json:"asked,omitempty"`
	Request world.Request `json:"request"`
}

// Runs are when runs of a kind began, and how long they took, in microseconds, oldest
// first.
type Runs struct {
	Kind  string  `json:"kind"`
	Began []int64 `json:"began"`
	Took  []int64 `json:"took"`
}

// Word is how long runs of a queue took, in thousandths of what was declared, oldest first.
type Word struct {
	Owner uint64  `json:"owner"`
	Took  []int64 `json:"took"`
}

// Ended is how a piece of work ended, with times in Unix microseconds.
type Ended struct {
	Name   string `json:"name"`
	Began  int64  `json:"began,omitempty"`
	At     int64  `json:"at"`
	Failed bool   `json:"failed,omitempty"`
}

// Ask is how many pods of a kind came with a request.
type Ask struct {
	Kind    string        `json:"kind,omitempty"`
	Request world.Request `json:"request"`
	Pods    int64         `json:"pods"`
}

// Queue is what a queue used, in thousandths of a GPU times seconds.
type Queue struct {
	Name  string        `json:"name"`
	Usage cluster.Usage `json:"usage"`
}

// Price is the price of a size of share in the packing plan.
type Price struct {
	Milli int     `json:"milli"`
	Price float64 `json:"price"`
}

// Encode writes beliefs. Where they are too many, the rarest requests are left out.
func Encode(b *Beliefs) ([]byte, error) {
	out := *b
	out.Asks = slices.Clone(b.Asks)
	slices.SortStableFunc(out.Asks, func(x, y Ask) int { return -cmp.Compare(x.Pods, y.Pods) })
	out.Asks = out.Asks[:min(len(out.Asks), mostAsks)]
	for {
		data, err := encode(&out)
		if err != nil || len(data) <= MostBytes {
			return data, err
		}
		if len(out.Asks) == 0 {
			return nil, fmt.Errorf("encode beliefs: %d bytes without any request", len(data))
		}
		out.Asks = out.Asks[:len(out.Asks)/2]
	}
}

func encode(b *Beliefs) ([]byte, error) {
	text, err := json.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("encode beliefs: %w", err)
	}
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := w.Write(text); err != nil {
		return nil, fmt.Errorf("encode beliefs: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("encode beliefs: %w", err)
	}
	sum := sha256.Sum256(zipped.Bytes())
	out := fmt.Appendf(nil, "%s%d\n", frame, Version)
	return append(append(out, sum[:]...), zipped.Bytes()...), nil
}

// The ways in which bytes are no beliefs.
var (
	ErrForm     = errors.New("these are no beliefs of this version")
	ErrChecksum = errors.New("the checksum is another one")
)

// Decode reads beliefs. It checks their form, not their sense.
func Decode(data []byte) (*Beliefs, error) {
	line, rest, found := bytes.Cut(data, []byte("\n"))
	if want := fmt.Sprintf("%s%d", frame, Version); !found || string(line) != want {
		return nil, fmt.Errorf("%w: they begin with %.40q, not with %q", ErrForm, line, want)
	}
	if len(rest) < sha256.Size {
		return nil, fmt.Errorf("%w: %d bytes after the first line", ErrForm, len(rest))
	}
	if sum := sha256.Sum256(rest[sha256.Size:]); !bytes.Equal(sum[:], rest[:sha256.Size]) {
		return nil, ErrChecksum
	}
	r, err := gzip.NewReader(bytes.NewReader(rest[sha256.Size:]))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrForm, err)
	}
	text, err := io.ReadAll(io.LimitReader(r, mostText+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrForm, err)
	}
	if len(text) > mostText {
		return nil, fmt.Errorf("%w: more than %d bytes of text", ErrForm, mostText)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	var out Beliefs
	if err := dec.Decode(&out); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrForm, err)
	}
	if len(out.Asks) > mostAsks {
		return nil, fmt.Errorf("%w: %d requests, at most %d", ErrForm, len(out.Asks), mostAsks)
	}
	return &out, nil
}
