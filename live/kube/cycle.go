package kube

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/fit"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/world"

	"github.com/headrace-dev/headrace/live/kube/facts"
)

const (
	// tellAgain is how long a reason stands when only its numbers changed.
	tellAgain = 30 * time.Second
	// tellRefused is how many refusals of a bind a pod is told of; fewer pass by
	// themselves.
	tellRefused = 3
	// tellMost bounds how many pods are told at a time; the others come next.
	tellMost = 50
)

// Bind is one bind to be carried out.
type Bind struct {
	Key, UID, Node string
	Since          time.Time // when the pod was first seen
	serial         uint64    // tells the binds of one pod apart
	bundle         uint64    // of binds that were decided together; 0: it was alone
	// GoneBy is until when the pod may be in room that is reserved for others from then
	// on; zero: it is in none.
	GoneBy time.Time
	Draws  []Draw // to be written to its claims first
	// prepare makes ready what else the pod needs before it is bound; nil: nothing.
	prepare func(context.Context) error
}

// Remark is a reason to be written on a pod.
type Remark struct {
	Key, UID, Reason, Message string
	// Another says that the kind of reason is another one than before, not only its
	// numbers.
	Another bool
	// release is a claim to be given back instead, for want of which the pod waits.
	release *resourceapi.ResourceClaim
	Group   *GroupRemark // set for a reason of a group
}

// decide runs one cycle per profile and returns the binds to be carried out. They
// are charged from now on.
func (b *books) decide(kind decision.CycleKind) []Bind {
	b.settleClaims()
	b.tellFacts()
	b.publish()
	binds := append(b.keepPromises(), b.release()...)
	b.stirred = false
	for _, t := range b.turns {
		binds = append(binds, b.decideFor(t, kind)...)
	}
	return binds
}

// decideFor runs one cycle of a profile.
func (b *books) decideFor(t *turn, kind decision.CycleKind) []Bind {
	b.cycle++
	t.cycle = b.cycle
	c := decision.Cycle{Number: b.cycle, Now: b.instant(), Kind: kind, Profile: t.symbol, RunnersUp: runnersUp}
	snapshot := b.world.Snapshot()
	plan := engine.Decide(snapshot, c, t.Policy, &t.memo)
	if b.record != nil {
		b.record.Cycle(c, plan.Digest(&snapshot.View))
	}

	var binds []Bind
	for _, bundle := range plan.Bundles() {
		if d := &bundle[0]; d.Action == cluster.ActionReplace {
			b.replace(&snapshot.View, d)
			continue
		} else if d.Because.ReplacedBy != "" {
			b.succeedBy(&snapshot.View, d)
			continue
		} else if d.Action == cluster.ActionEvict {
			b.giveWay(snapshot, d)
			continue
		}
		if d := &bundle[0]; d.Action == cluster.ActionPrefetch {
			b.fetch(&snapshot.View, d, plan.Waiting)
			continue
		}
		binds = append(binds, b.commit(&snapshot.View, bundle)...)
	}
	b.note(&snapshot.View, plan.Waiting, kind)
	b.nominate()
	return binds
}

// commit accepts what is carried out together, and returns its binds.
func (b *books) commit(v *cluster.View, bundle []decision.Decision) []Bind {
	if d := &bundle[0]; d.Action == cluster.ActionScale {
		b.log.Warn("a decision of a kind that is not carried out", "action", d.Action, "job", v.Job(d.Scale.Job).Name)
		return nil
	}
	if d := &bundle[0]; d.Action != cluster.ActionBind {
		b.log.Warn("a decision of a kind that is not carried out", "action", d.Action, "decision", d.Line(v))
		return nil
	}
	draws := make([][]Draw, len(bundle))
	for i := range bundle {
		key, err := v.Pod(bundle[i].Pod).Spec.Name, error(nil)
		if draws[i], err = b.drawn(v, key, &bundle[i]); err != nil {
			b.log.Debug("a decision comes too early", "pod", key, "because", err)
			return nil
		}
	}
	// Whoever has room before others have left need not wait for them.
	if b.awaits(bundle) {
		b.holdFor(v, bundle)
		return nil
	}
	for i := range bundle {
		bundle[i].After = nil
	}
	if err := b.apply(world.Acceptance(bundle)); err != nil {
		b.log.Warn("a decision is not accepted", "because", err)
		return nil
	}
	together := uint64(0)
	if len(bundle) > 1 {
		b.bundles.last++
		together = b.bundles.last
	}
	var binds []Bind
	for i := range bundle {
		d := &bundle[i]
		key, host := v.Pod(d.Pod).Spec.Name, v.Node(d.Place.Node).Spec.Name
		p := b.pods[key]
		p.story.placed(b.now, b.cycle, v, d)
		b.inherited(d.Inherits, key)
		b.judgeDeadline(key, p, d.Because.Deadline, d.Because.End)
		bind := b.dispatch(key, p, host, draws[i])
		if d.GoneBy > 0 {
			bind.GoneBy = clockTime(d.GoneBy)
		}
		bind.bundle = together
		binds = append(binds, bind)
	}
	return binds
}

// awaits says whether some bind of a bundle has no room before others have left.
func (b *books) awaits(bundle []decision.Decision) bool {
	return slices.ContainsFunc(bundle, func(d decision.Decision) bool {
		return len(d.After) > 0 && !fit.CheckPod(b.world.View(), d.Pod, d.Place.Shape, d.Place.Node).None()
	})
}

// afterOf is all that the binds of a bundle come after.
func afterOf(bundle []decision.Decision) (out []uint64) {
	for i := range bundle {
		out = append(out, bundle[i].After...)
	}
	return out
}

// note remembers why pods wait. Pods of one shape share the reason.
func (b *books) note(v *cluster.View, line []decision.Waiting, kind decision.CycleKind) {
	sentences := make(map[*decision.Reason]why)
	for i := range line {
		w := &line[i]
		said, known := sentences[w.Why]
		if !known {
			said = why{kind: w.Why.Kind(v), sentence: w.Why.Tell(v, onTheClock), reason: w.Why}
			sentences[w.Why] = said
		}
		p := b.pods[v.Pod(w.Pod).Spec.Name]
		p.foreseen(v, w)
		b.prophesy(v, w)
		b.judgeDeadline(v.Pod(w.Pod).Spec.Name, p, w.Why.Deadline, w.Why.End)
		if kind != decision.CycleReview && p.inKnot() && w.Why.Code.Future() == decision.AfterRoom {
			said = p.why // knots are looked for in reviews
		}
		if p.why, p.asOf = said, b.cycle; w.Why.Code == decision.BackingOff {
			continue // it was told of the refusal itself
		}
		p.story.tell(b.now, said.kind, said.sentence)
	}
}

// fetchingImages is the reason word of a pod that waits for what is fetched. It has room: to
// autoscalers one that is unschedulable would be a call for nodes.
const fetchingImages = "FetchingImages"

// refusedKind is the kind of reason of a pod whose bind was refused.
const refusedKind = "bind refused"

// Outcome is what became of a bind.
type Outcome struct {
	Bind Bind
	Err  error // nil: carried out
	// Claims are those of the bind as they are now, as far as that is known.
	Claims []*resourceapi.ResourceClaim
	// Gone are claims that were made for the bind and deleted again.
	Gone []*resourceapi.ResourceClaim
}

// outcome takes in what became of a bind. One whose pod has moved on since is
// history.
func (b *books) outcome(o *Outcome) (heeded bool) {
	b.land(o)
	p := b.pods[o.Bind.Key]
	if p == nil || p.seen.UID != o.Bind.UID || p.footing != placing || p.serial != o.Bind.serial {
		return false
	}
	if o.Err == nil {
		b.must(world.Bound{Name: o.Bind.Key})
		p.footing, p.tries, p.vetoes = charged, 0, 0
		b.cameTrue(o.Bind.Key, p)
		return true
	}
	b.setBack(o.Bind.Key, p, o.Err.Error())
	return true
}

// setBack ends a bind or a hold that came to nothing. The pod backs off, so that it
// does not hold up others.
func (b *books) setBack(key string, p *pod, because string) {
	b.unhold(key, p)
	b.must(world.BindRefused{Name: key})
	b.left(p)
	p.footing, p.node = waiting, ""
	p.tries++
	p.refusal = because
	p.story.tell(b.now, refusedKind, "the bind was refused: "+p.refusal)
	b.again, _ = b.world.View().NextTry(b.instant())
	b.stirred = true
	b.settle(key, p) // it may ask for something else by now
}

// resume notes that a pod, or a group, which backed off has its turn again.
func (b *books) resume() {
	now := b.instant()
	b.stirred = b.stirred || b.again <= now
	b.again, _ = b.world.View().NextTry(now)
}

// backsOff is why a pod in line has no turn, after refused binds, or since its group gave
// its room back or its job waits for others; the zero reason where it has one.
func (b *books) backsOff(p *pod) decision.Reason {
	if p.footing != waiting {
		return decision.Reason{}
	}
	id, known := b.world.Pod(p.seen.Added.Name)
	if !known {
		return decision.Reason{}
	}
	return engine.HeldBack(b.world.View(), id, b.instant())
}

// onTheClock says an instant as people who look at a cluster know it.
func onTheClock(at moment.Instant) string {
	return time.UnixMicro(int64(at)).UTC().Format("15:04:05") + " UTC"
}

// refusedWhy is what is said of a pod that backs off; nothing of one whose refusals may
// pass by themselves.
func (b *books) refusedWhy(p *pod, held *decision.Reason) why {
	if p.tries < tellRefused {
		return why{}
	}
	out := why{kind: refusedKind, sentence: "the bind was refused: " + p.refusal}
	if held.Code == decision.SetAside {
		out = why{kind: held.Kind(b.world.View()), sentence: held.Tell(b.world.View(), onTheClock) + ": " + p.refusal, reason: held}
	}
	return out
}

// remarks returns what is to be written on pods that wait: once they have waited
// a little, and only when the reason is another one.
func (b *books) remarks() []Remark {
	var due []string
	for key, p := range b.pods { // order: sorted below
		said, _ := b.said(p)
		another := said.kind != p.told.kind || b.now.Sub(p.toldAt) >= tellAgain
		if said.sentence != "" && said.sentence != p.told.sentence && another && b.now.Sub(p.first) >= b.tellAfter {
			due = append(due, key)
		}
	}
	slices.Sort(due)
	var out []Remark
	for _, key := range due[:min(len(due), tellMost)] {
		p := b.pods[key]
		said, reason := b.said(p)
		// After a restart only the sentence is known that was written before.
		another := said.kind != p.told.kind && (p.told.kind != "" || p.told.sentence == "")
		p.told, p.toldAt = said, b.now
		p.story.tell(b.now, said.kind, said.sentence)
		out = append(out, Remark{Key: key, UID: p.seen.UID, Reason: reason, Message: said.sentence, Another: another})
	}
	return out
}

// said returns why a pod waits and the reason word of its condition; nothing for
// one that does not wait.
func (b *books) said(p *pod) (why, string) {
	held := b.backsOff(p)
	switch {
	case p.seen.Standing == facts.Held && p.seen.Waits != "":
		return why{kind: "resource claim", sentence: p.seen.Waits}, corev1.PodReasonUnschedulable
	case p.seen.Standing == facts.Held && p.seen.Why != "":
		return unsupported(p.seen.Why), corev1.PodReasonSchedulerError
	case p.footing == holding:
		says := "waits for pods of lower priority to leave "
		if b.moving(p.node) {
			says = "waits for pods to move from "
		}
		return why{kind: "room being made", sentence: says + p.node}, corev1.PodReasonUnschedulable
	case p.footing == waiting && b.groupWhy(p) != "":
		return unsupported("a group with " + b.groupWhy(p)), corev1.PodReasonSchedulerError
	case p.seen.Standing == facts.Waiting && p.unordered != "":
		return why{kind: "order of jobs", sentence: p.unordered}, corev1.PodReasonUnschedulable
	case p.seen.Standing == facts.Waiting && p.lineless != "":
		return why{kind: "no queue", sentence: p.lineless}, corev1.PodReasonUnschedulable
	case p.seen.Standing == facts.Waiting && p.unlooked() && !b.exclusions.judged:
		return unsupported(p.seen.Tied), corev1.PodReasonSchedulerError
	case p.footing == waiting && p.bar.why != "":
		return why{kind: "volumes", sentence: p.bar.why}, corev1.PodReasonUnschedulable
	case held.Code == decision.BackingOff || held.Code == decision.SetAside:
		return b.refusedWhy(p, &held), corev1.PodReasonSchedulerError
	case !held.None():
		return why{kind: held.Kind(b.world.View()), sentence: held.Tell(b.world.View(), onTheClock), reason: &held}, corev1.PodReasonUnschedulable
	case p.footing == waiting && p.asOf > 0 && p.asOf == b.turnOf(p).cycle && p.why.reason != nil && p.why.reason.Code == decision.Fetching:
		return p.why, fetchingImages
	case p.footing == waiting && p.asOf > 0 && p.asOf == b.turnOf(p).cycle:
		return p.why, corev1.PodReasonUnschedulable
	}
	return why{}, ""
}
