package rank_test

import (
	"testing"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/rank"
)

// Urgency is the part of the time a pod may wait that is used up, by its promise or to
// its latest start; CompareUrgency orders by the same.
func TestUrgency(t *testing.T) {
	const hour = moment.Hour
	now := moment.Instant(4 * hour)
	for _, c := range []struct {
		name               string
		arrived            moment.Instant
		promised, expected moment.Span
		deadline           moment.Instant
		want               int64
	}{
		{name: "nothing promised", want: 0},
		{name: "half of the promise", arrived: moment.Instant(3 * hour), promised: 2 * hour, want: decision.ScoreOne / 2},
		{name: "more than the promise", promised: hour, want: decision.ScoreOne},
		{name: "half way to the deadline", deadline: moment.Instant(8 * hour), want: decision.ScoreOne / 2},
		{name: "at the latest start", deadline: moment.Instant(8 * hour), expected: 4 * hour, want: decision.ScoreOne},
		{name: "near the latest start", deadline: moment.Instant(8 * hour), expected: 3 * hour, want: decision.ScoreOne * 4 / 5},
		{name: "just come, and too late already", arrived: now, deadline: moment.Instant(8 * hour), expected: 5 * hour, want: decision.ScoreOne},
		{name: "the deadline before the promise", promised: 16 * hour, deadline: moment.Instant(8 * hour), want: decision.ScoreOne / 2},
		{name: "the promise before the deadline", promised: 5 * hour, deadline: moment.Instant(8 * hour), want: decision.ScoreOne * 4 / 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &cluster.Pod{Arrived: c.arrived, Spec: &cluster.PodSpec{SLATotal: c.promised, Expected: c.expected, Deadline: c.deadline}}
			if got := rank.Urgency(p, now); got != c.want {
				t.Errorf("Urgency: got %d, want %d", got, c.want)
			}
			third := &cluster.Pod{Arrived: now.Add(-hour), Spec: &cluster.PodSpec{SLATotal: 3 * hour}}
			if got := rank.CompareUrgency(p, third, now); (got > 0) != (c.want > decision.ScoreOne/3) {
				t.Errorf("CompareUrgency with a third: got %d for %d", got, c.want)
			}
		})
	}
}
