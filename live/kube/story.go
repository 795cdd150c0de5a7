package kube

import (
	"time"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/moment"

	"github.com/headrace-dev/headrace/live/explain"
)

const (
	// historyKept is how many reasons are remembered of a pod.
	historyKept = 8
	// runnersUp is how many nodes that were not chosen are remembered of a decision.
	runnersUp = 3
)

// story is what is remembered of a pod for those who ask: its last reasons, and
// what spoke for its place.
type story struct {
	past   []explain.Past
	chosen *explain.Chosen
}

// tell adds to the history when something else is the case than before.
func (s *story) tell(now time.Time, kind, says string) {
	if n := len(s.past); n > 0 && s.past[n-1].Kind == kind {
		s.past[n-1].Says = says
		return
	}
	s.past = append(s.past, explain.Past{At: now, Kind: kind, Says: says})
	if len(s.past) > historyKept {
		s.past = append([]explain.Past(nil), s.past[len(s.past)-historyKept:]...)
	}
}

// placed remembers why a place was chosen.
func (s *story) placed(now time.Time, cycle uint64, v *cluster.View, d *decision.Decision) {
	because := &d.Because
	s.chosen = &explain.Chosen{
		At: now, Cycle: cycle, Policy: because.Policy, Score: scoreOf(&because.Score), Feasible: because.Feasible,
		Images: imagesAt(v, d, moment.Instant(now.UnixMicro())),
	}
	for i := range because.RunnersUp {
		up := &because.RunnersUp[i]
		s.chosen.RunnersUp = append(s.chosen.RunnersUp, explain.RunnerUp{Node: v.Node(up.Node).Spec.Name, Score: scoreOf(&up.Score)})
	}
	says := "placed on " + v.Node(d.Place.Node).Spec.Name
	if because.InPlaceOf != "" {
		says += ", where room was kept for it, in place of " + because.InPlaceOf
	}
	s.tell(now, "placed", says)
}

// moves remembers why a pod was told to go elsewhere.
func (s *story) moves(now time.Time, d *decision.Decision) {
	if m := d.Because.Move; m != nil {
		s.tell(now, "moved", m.Describe())
	}
}

func scoreOf(s *decision.Score) explain.Score {
	return explain.Score{Total: s.Total, Fit: s.Fit, Urgency: s.Urgency, Affinity: s.Affinity}
}

// reasonOf is a reason as it is told, with names out of the view.
func reasonOf(v *cluster.View, r *decision.Reason) explain.Reason {
	out := explain.Reason{
		Code: r.Code.Name(), Kind: r.Kind(v), Says: r.Tell(v, onTheClock), Need: r.Need, Have: r.Have, Nodes: r.Nodes, Of: r.Of,
	}
	if r.Code == decision.NodeCapacity || r.Code == decision.NodeRoom {
		out.Dimension = v.DimName(r.Dim)
	}
	return out
}
