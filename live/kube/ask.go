package kube

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"

	"github.com/headrace-dev/headrace/live/explain"
	"github.com/headrace-dev/headrace/live/kube/facts"
)

// errNoPod says that a pod is not known.
var errNoPod = errors.New("no such pod, or one of another scheduler")

// ask lets the owner of the world do something between two things of its own, and
// waits until it is done. It must be quick: copying, no judging.
func (s *Scheduler) ask(ctx context.Context, do func(*owner)) error {
	done := make(chan struct{})
	select {
	case s.asks <- func(o *owner) { do(o); close(done) }:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// inquiry is what the owner hands out about a pod: everything in it stays as it is.
type inquiry struct {
	key     string
	now     time.Time
	cycle   decision.Cycle
	view    *cluster.View
	id      cluster.PodID
	inWorld bool
	pod     pod
	said    why
	turn    Profile
	queues  queueLook
}

// inquire copies what there is to know about a pod.
func (o *owner) inquire(key string) (inquiry, error) {
	b := o.books
	p := b.pods[key]
	if p == nil {
		return inquiry{}, errNoPod
	}
	t := b.turnOf(p)
	q := inquiry{
		key: key, now: time.Now(), view: &b.world.Snapshot().View,
		cycle: decision.Cycle{Number: b.cycle, Now: b.instant(), Profile: t.symbol},
		pod:   *p, turn: t.Profile,
	}
	q.pod.story.past = append([]explain.Past(nil), p.story.past...)
	q.said, _ = b.said(p)
	q.id, q.inWorld = b.world.Pod(key)
	q.queues = b.lookAtQueues()
	return q, nil
}

// ExplainPod says why a pod is where it is, or why it waits. The owner hands out a
// snapshot; the answer is worked out beside it.
func (s *Scheduler) ExplainPod(ctx context.Context, namespace, name string) (explain.Pod, error) {
	var q inquiry
	var unknown error
	if err := s.ask(ctx, func(o *owner) { q, unknown = o.inquire(namespace + "/" + name) }); err != nil {
		return explain.Pod{}, err
	}
	if unknown != nil {
		return explain.Pod{}, unknown
	}
	return q.answer(), nil
}

// lineup is what the owner hands out about the line.
type lineup struct {
	now   time.Time
	view  *cluster.View
	turns []Profile
	cycle []decision.Cycle // of each turn
	pods  map[string]lined
}

// lined is a pod that waits.
type lined struct {
	first    time.Time
	priority int32
	profile  string
	verdict  explain.Verdict
	said     why
	inLine   bool
	starts   *explain.Starts
}

// line copies what there is to know about the pods that wait.
func (o *owner) line() lineup {
	b := o.books
	q := lineup{now: time.Now(), view: &b.world.Snapshot().View, pods: make(map[string]lined)}
	for _, t := range b.turns {
		q.turns = append(q.turns, t.Profile)
		q.cycle = append(q.cycle, decision.Cycle{Number: b.cycle, Now: b.instant(), Profile: t.symbol})
	}
	for key, p := range b.pods { // order: a map is filled
		if p.footing == waiting || p.footing == holding || p.footing == outside && (p.seen.Standing == facts.Waiting || p.seen.Standing == facts.Held) {
			said, _ := b.said(p)
			q.pods[key] = lined{
				first: p.first, priority: p.seen.Added.Priority, profile: b.turnOf(p).Name,
				verdict: verdictOf(p, &said), said: said, starts: p.starts, inLine: p.footing == waiting && b.backsOff(p).None(),
			}
		}
	}
	return q
}

// ExplainQueue returns the waiting line, at most so many pods of it.
func (s *Scheduler) ExplainQueue(ctx context.Context, limit int) (explain.Queue, error) {
	var q lineup
	if err := s.ask(ctx, func(o *owner) { q = o.line() }); err != nil {
		return explain.Queue{}, err
	}
	return q.answer(limit), nil
}

// ExplainTop returns the cluster at a glance, with at most so many nodes.
func (s *Scheduler) ExplainTop(ctx context.Context, limit int) (explain.Top, error) {
	var view *cluster.View
	var turns []Profile
	var queues queueLook
	err := s.ask(ctx, func(o *owner) {
		queues = o.books.lookAtQueues()
		view = queues.view
		for _, t := range o.books.turns {
			turns = append(turns, t.Profile)
		}
	})
	if err != nil {
		return explain.Top{}, err
	}
	f := s.Figures()
	top := glance(view, &f, turns, limit)
	top.Queues = queues.tenants()
	return top, nil
}

// verdictOf is what becomes of a pod as it stands.
func verdictOf(p *pod, said *why) explain.Verdict {
	switch {
	case p.footing == placing || p.footing == charged:
		return explain.Placed
	case p.seen.Standing == facts.Held, p.seen.Standing == facts.Waiting && (p.lineless != "" || p.unordered != ""):
		return explain.AfterChange
	case said.reason == nil:
		return explain.Waiting
	}
	switch said.reason.Code.Future() {
	case decision.Never:
		return explain.Never
	case decision.AfterChange:
		return explain.AfterChange
	}
	return explain.Waiting
}

// inOrder returns the names of the waiting pods, turn by turn.
func (q *lineup) inOrder() []string {
	var out []string
	for i, t := range q.turns {
		for _, id := range engine.Line(q.view, q.cycle[i], t.Policy) {
			out = append(out, q.view.Pod(id).Spec.Name)
		}
	}
	return out
}

// split is the namespace and the name in a key.
func split(key string) (namespace, name string) {
	namespace, name, _ = strings.Cut(key, "/")
	return namespace, name
}
