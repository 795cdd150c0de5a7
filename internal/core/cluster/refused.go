package cluster

import (
	"fmt"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/moment"
)

// A bind that the cluster refuses, and an eviction, is not tried again at once. What is
// known of that stands with the pod and is a commitment: nobody decides otherwise before
// the time is over.

// Refused lists the pods whose last bind was refused, in no order that means anything.
func (v *View) Refused() []PodID { return v.refused }

// NextTry is when the next pod, or group, that backs off has its turn again; ok is false
// where none will by itself.
func (v *View) NextTry(now moment.Instant) (at moment.Instant, ok bool) {
	at = moment.Never
	for _, id := range v.refused {
		if until := v.Pod(id).Refused.Until; until > now {
			at = min(at, until)
		}
	}
	for _, id := range v.returned {
		if until := v.Group(id).GaveBack.Until; until > now {
			at = min(at, until)
		}
	}
	return at, at != moment.Never
}

// SetRefused says how often the binds of a pod were refused; never, with the zero value.
// The list of them is never changed in place.
func (l *Ledger) SetRefused(id PodID, r Refusals) {
	p := l.pod(id)
	switch before := p.Refused.Count > 0; {
	case before && r.Count == 0:
		l.refused = removed(l.refused, id)
	case !before && r.Count > 0:
		l.refused = appended(l.refused, id)
	}
	p.Refused = r
}

// forgetRefuser takes a node that is gone out of what is known of refusals.
func (l *Ledger) forgetRefuser(id NodeID) {
	for _, pod := range l.refused {
		if l.Pod(pod).Refused.Node == id {
			l.pod(pod).Refused.Node = None
		}
	}
}

// refusalsDigest adds what was refused about a pod to its hash.
func (v *View) refusalsDigest(h uint64, p *Pod) uint64 {
	if p.Refused.Count > 0 {
		h = chance.Hash(32, h, uint64(p.Refused.Count), uint64(p.Refused.Until))
		if p.Refused.Node != None {
			h = chance.Fold(h, v.Node(p.Refused.Node).Key)
		}
	}
	if p.Kept.Count > 0 {
		h = chance.Hash(33, h, uint64(p.Kept.Count), uint64(p.Kept.Until))
	}
	return h
}

// refusals counts the pods anew whose last bind was refused.
func (a *audit) refusals() error {
	v, n := a.view, 0
	for i := range v.Pods.Len() {
		p := v.Pod(PodID(i))
		if p.Phase == PhaseGone {
			continue
		}
		for _, r := range [...]Refusals{p.Refused, p.Kept} {
			if r.Count < 0 || (r.Count == 0) != (r.Until == 0) {
				return fmt.Errorf("audit: pod %s: refused %d times, until %v", p.Spec.Name, r.Count, r.Until)
			}
		}
		if p.Kept.Count > 0 && !p.Phase.Charged() {
			return fmt.Errorf("audit: pod %s is %v, and its eviction was refused %d times", p.Spec.Name, p.Phase, p.Kept.Count)
		}
		if p.Refused.Count == 0 {
			continue
		}
		if n++; !slices.Contains(v.refused, PodID(i)) || p.Phase > PhasePlacing {
			return fmt.Errorf("audit: pod %s, %v: %d binds refused, listed: %v", p.Spec.Name, p.Phase, p.Refused.Count, slices.Contains(v.refused, PodID(i)))
		}
	}
	if n != len(v.refused) {
		return fmt.Errorf("audit: %d pods had their last bind refused, %d are listed", n, len(v.refused))
	}
	return nil
}
