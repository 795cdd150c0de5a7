package decision

import (
	"fmt"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
)

// Scale is what a decision about the size of a job comes to. Its workers come and go by
// decisions of the same plan.
type Scale struct {
	Job      cluster.JobID
	From, To cluster.JobSize
	Why      SizeCause
	// Of is the pod that the decision is about, for SizeLag; else it is None.
	Of cluster.PodID
}

// SizeCause is why a job gets another size.
type SizeCause uint8

const (
	SizeStart   SizeCause = iota // it starts
	SizeGain                     // more workers gain more than their start costs
	SizeMove                     // another model gains more than the move costs
	SizeYields                   // others gain more by its GPUs
	SizeShare                    // its queue has more than its share
	SizeCrowded                  // its workers wait for each other
	SizeLag                      // a worker holds the others up
	SizeTaken                    // workers gave way to others
	SizeKept                     // workers that were to go have stayed
)

var causes = [...]string{ // const: the causes in words
	"it starts", "more workers pay", "another model pays", "others gain more by it", "its queue has more than its share",
	"its workers wait for each other", "a worker lags", "workers gave way", "its workers stayed",
}

func (c SizeCause) String() string { return causes[c] }

// NewScale is the decision that a job runs in another size from now on.
func NewScale(c Cycle, v *cluster.View, s Scale, policy string) Decision {
	j := v.Job(s.Job)
	d := Decision{
		ID:     chance.Hash(c.Number, j.Key, uint64(j.Sizing.Times), uint64(cluster.ActionScale)),
		Action: cluster.ActionScale, Pod: cluster.None, Subject: j.Key,
		Row: cluster.Ref{ID: int32(s.Job), Generation: j.Generation}, Place: cluster.Nowhere(), Host: cluster.Ref{ID: cluster.None},
		Deadline: moment.Never, Scale: &s, Because: Explanation{Policy: policy},
	}
	if s.Of != cluster.None {
		d.Because.For = v.Pod(s.Of).Spec.Name
	}
	return d
}

// Line is "scale train from 2xA100 to 4xA100: more workers pay".
func (s *Scale) line(v *cluster.View) string {
	text := fmt.Sprintf("%v %s", cluster.ActionScale, v.Job(s.Job).Name)
	if s.From.Workers > 0 {
		text += " from " + SizeText(v, s.From)
	}
	why := s.Why.String()
	if s.Of != cluster.None {
		why = fmt.Sprintf("%s lags", v.Pod(s.Of).Spec.Name)
	}
	return fmt.Sprintf("%s to %s: %s", text, SizeText(v, s.To), why)
}

// SizeText is "4xA100"; "-" for none.
func SizeText(v *cluster.View, s cluster.JobSize) string {
	if s.Workers == 0 {
		return "-"
	}
	return fmt.Sprintf("%dx%s", s.Workers, v.Symbols.Text(s.Model))
}

func (s *Scale) digest(h uint64, v *cluster.View) uint64 {
	return chance.Hash(h, v.Job(s.Job).Key, uint64(s.To.Workers), chance.HashString(v.Symbols.Text(s.To.Model)), uint64(s.Why))
}
