package facts

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/world"

	"github.com/headrace-dev/headrace/api/v1alpha1"
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
	AfterWork        = "headrace.dev/after"             // NAME, NAME=end, NAME=start
	SLAClass         = "headrace.dev/sla-class"         // by label, too
	// GoneBy is written by the scheduler: until when a pod may be in room that is reserved
	// for others from then on.
	GoneBy      = "headrace.dev/gone-by"
	longestSpan = 10 * 366 * 24 * time.Hour // longer is a slip of the pen
	instantForm = "RFC 3339, like 2026-01-31T12:00:00Z, not before 1970"
	spanForm    = "a duration from 0s to 87840h, like 90s or 1h30m"
	secondsForm = "whole seconds from 0 to 316224000"
	afterForm   = "names of jobs, groups or pods of the namespace, each once and at most 1000, as a, b=success, c=end, d=start"
	mostAfter   = 1000 // as the world has it
)

// JobOf returns what a pod's annotations say of its job, and a sentence for each
// that cannot be read, which counts as if it were not there.
func JobOf(annotations map[string]string) (world.JobFacts, []string) {
	r := annotationReader{from: annotations}
	job := world.JobFacts{
		Unpreemptible: !r.truth(Preemptible, true),
		Expected:      r.span(ExpectedDuration),
		Deadline:      r.instant(DeadlineAt),
		SLA:           r.from[SLAClass],
		After:         r.after(AfterWork),
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

// after reads what work comes after.
func (r *annotationReader) after(key string) []world.Dependency {
	value, stated := r.from[key]
	if !stated {
		return nil
	}
	var out []world.Dependency
	for part := range strings.SplitSeq(value, ",") {
		name, what, said := strings.Cut(strings.TrimSpace(part), "=")
		kinds := []string{cluster.AfterSuccess.String(), cluster.AfterEnd.String(), cluster.AfterStart.String()}
		kind := slices.Index(kinds, what)
		if !said {
			kind = int(cluster.AfterSuccess)
		}
		again := slices.ContainsFunc(out, func(d world.Dependency) bool { return d.Job == name })
		if kind < 0 || again || len(out) == mostAfter || len(validation.IsDNS1123Subdomain(name)) > 0 {
			r.fault(key, value, afterForm)
			return nil
		}
		out = append(out, world.Dependency{Job: name, When: cluster.DependencyKind(kind)})
	}
	return out
}

// workOf is the name of the work that a pod is part of, as others come after it: its
// group, else the Job that made it, else the pod itself.
func workOf(p *corev1.Pod) string {
	if g := p.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil {
		return *g.PodGroupName
	}
	if name := marked(p, v1alpha1.PodGroupLabel); name != "" {
		return name
	}
	if owner := metav1.GetControllerOf(p); owner != nil && owner.Kind == "Job" && strings.HasPrefix(owner.APIVersion, batchv1.GroupName+"/") {
		return owner.Name
	}
	return p.Name
}

// Work is a piece of work as the API server knows it.
type Work uint8

const (
	WorkUnknown Work = iota // there is nothing of the name
	WorkThere               // and is not over
	WorkDone
	WorkFailed
)

// JobState is where a Job stands, and when it began and ended, where that is known.
func JobState(j *batchv1.Job) (state Work, began, ended moment.Instant) {
	if j.Status.StartTime != nil && (j.Status.Active > 0 || j.Status.Succeeded > 0 || j.Status.Failed > 0) {
		began = instantOf(j.Status.StartTime.Time)
	}
	for i := range j.Status.Conditions {
		c := &j.Status.Conditions[i]
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch c.Type {
		case batchv1.JobComplete:
			return WorkDone, began, instantOf(c.LastTransitionTime.Time)
		case batchv1.JobFailed:
			return WorkFailed, began, instantOf(c.LastTransitionTime.Time)
		}
	}
	return WorkThere, began, 0
}

// PodsState is where the work of a name stands that has no Job, by the pods of its
// namespace: it is over when all of its pods are, and has failed when one of them did.
func PodsState(name string, pods []corev1.Pod) (state Work, began, ended moment.Instant) {
	going, failed := false, false
	for i := range pods {
		p := &pods[i]
		if workOf(p) != name {
			continue
		}
		state = WorkThere
		if p.Status.StartTime != nil && p.Spec.NodeName != "" && p.Status.Phase != corev1.PodPending {
			if at := instantOf(p.Status.StartTime.Time); began == 0 || at < began {
				began = at
			}
		}
		switch p.Status.Phase {
		case corev1.PodSucceeded, corev1.PodFailed:
			failed = failed || p.Status.Phase == corev1.PodFailed
			ended = max(ended, endOf(p))
		default:
			going = true
		}
	}
	switch {
	case state == WorkUnknown || going:
		return state, began, 0
	case failed:
		return WorkFailed, began, ended
	}
	return WorkDone, began, ended
}

// endOf is when the last container of a pod ended.
func endOf(p *corev1.Pod) (at moment.Instant) {
	for i := range p.Status.ContainerStatuses {
		if t := p.Status.ContainerStatuses[i].State.Terminated; t != nil {
			at = max(at, instantOf(t.FinishedAt.Time))
		}
	}
	return at
}

func instantOf(t time.Time) moment.Instant { return moment.Instant(max(t.UnixMicro(), 0)) }
