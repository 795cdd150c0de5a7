package facts

import (
	"fmt"
	"strconv"
	"time"

	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/world"
)

// What a pod says of the job that it is part of, by annotation.
const (
	CheckpointedAt   = "headrace.dev/checkpointed-at"   // an instant
	CheckpointPeriod = "headrace.dev/checkpoint-period" // a length of time
	CheckpointWrite  = "headrace.dev/checkpoint-write"  // a length of time
	RestartSeconds   = "headrace.dev/restart-seconds"   // whole seconds
	ExpectedDuration = "headrace.dev/expected-duration" // a length of time
	Preemptible      = "headrace.dev/preemptible"       // true or false
	DeadlineAt       = "headrace.dev/deadline"          // an instant
	longestSpan      = 10 * 366 * 24 * time.Hour        // longer is a slip of the pen
	instantForm      = "RFC 3339, like 2026-01-31T12:00:00Z, not before 1970"
	spanForm         = "a duration from 0s to 87840h, like 90s or 1h30m"
	secondsForm      = "whole seconds from 0 to 316224000"
)

// JobOf returns what a pod's annotations say of its job, and a sentence for each
// that cannot be read, which counts as if it were not there.
func JobOf(annotations map[string]string) (world.JobFacts, []string) {
	r := annotationReader{from: annotations}
	job := world.JobFacts{
		Unpreemptible: !r.truth(Preemptible, true),
		Expected:      r.span(ExpectedDuration),
		Deadline:      r.instant(DeadlineAt),
		Checkpoint: world.Checkpoint{
			Last: r.instant(CheckpointedAt), Period: r.span(CheckpointPeriod), Write: r.span(CheckpointWrite), Restart: r.seconds(RestartSeconds),
		},
	}
	return job, r.faults
}

// annotationReader reads values in their order and collects what is wrong with them.
type annotationReader struct {
	from   map[string]string
	faults []string
}

func (r *annotationReader) fault(key, value, allowed string) {
	const most = 80 // bytes of a value that are shown; an annotation may have 256 KiB
	if len(value) > most {
		value = value[:most]
	}
	r.faults = append(r.faults, fmt.Sprintf("annotation %s: %q: must be %s; it is ignored", key, value, allowed))
}

func (r *annotationReader) instant(key string) moment.Instant {
	value, stated := r.from[key]
	if !stated {
		return 0
	}
	at, err := time.Parse(time.RFC3339, value)
	if err != nil || at.Unix() < 0 {
		r.fault(key, value, instantForm)
		return 0
	}
	return moment.Instant(at.UnixMicro())
}

func (r *annotationReader) span(key string) moment.Span {
	value, stated := r.from[key]
	if !stated {
		return 0
	}
	d, err := time.ParseDuration(value)
	if err != nil || d < 0 || d > longestSpan {
		r.fault(key, value, spanForm)
		return 0
	}
	return moment.Span(d.Microseconds())
}

func (r *annotationReader) seconds(key string) moment.Span {
	value, stated := r.from[key]
	if !stated {
		return 0
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 || n > int64(longestSpan/time.Second) {
		r.fault(key, value, secondsForm)
		return 0
	}
	return moment.Span(n) * moment.Second
}

func (r *annotationReader) truth(key string, absent bool) bool {
	switch value, stated := r.from[key]; {
	case !stated:
		return absent
	case value == "true", value == "false":
		return value == "true"
	default:
		r.fault(key, value, "true or false")
		return absent
	}
}
