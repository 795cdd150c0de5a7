// Package whatif answers what would become of pods if they were submitted now: the
// node they would get, or when they would start, and who would have to go for them.
//
//	answer := whatif.Ask(&cluster, config, pods)
//
// It places by the books and the engine of the scheduler itself (kube.Trial), on
// what was read of a cluster, and lets bound pods end when they said that they
// would. It is free of clients. It leaves devices of DRA drivers and pod groups to
// the scheduler: about pods that need them it says that it cannot tell.
package whatif

import (
	"cmp"
	"container/heap"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/headrace-dev/headrace/internal/core/decision"

	"github.com/headrace-dev/headrace/live/inventory"
	"github.com/headrace-dev/headrace/live/kube"
	"github.com/headrace-dev/headrace/live/kube/facts"
)

const (
	// mostEnds bounds how many pods are let end for one answer.
	mostEnds = 20_000
	// mostNamed bounds how many pods an answer names at a time.
	mostNamed = 20
)

// Cluster is what was read of a cluster.
type Cluster struct {
	Now     time.Time
	Nodes   []corev1.Node
	Pods    []corev1.Pod
	Budgets []policyv1.PodDisruptionBudget
}

// Answer is what would become of the pods asked about.
type Answer struct {
	Policy string `json:"policy"`
	// Nodes, Bound and Waiting are what was read; Timed are the bound pods that said
	// how long they run.
	Nodes   int       `json:"nodes"`
	Bound   int       `json:"bound"`
	Waiting int       `json:"waiting"`
	Timed   int       `json:"timed"`
	Pods    []Outlook `json:"pods"`
}

// Outlook is what would become of one pod.
type Outlook struct {
	Pod string `json:"pod"`
	// Now is where it would be placed at once; nil where it would wait.
	Now *Place `json:"now,omitempty"`
	// Why is what binds otherwise.
	Why string `json:"why,omitempty"`
	// Unjudged says that it asks for something that is not looked at here.
	Unjudged bool `json:"unjudged,omitempty"`
	// Starts is when it would start by the run times that were declared, if nobody
	// is evicted.
	Starts *Start `json:"starts,omitempty"`
	// AsSoonAs are pods whose end makes room, the fewest found, whenever that is.
	AsSoonAs *Set `json:"as_soon_as,omitempty"`
	// Evicts are the pods that would be evicted for it under preemption.
	Evicts *Set `json:"evicts,omitempty"`
}

// Place is a node with the score that speaks for it.
type Place struct {
	Node string `json:"node"`
	// Score is in millionths, comparable within one policy.
	Score int64 `json:"score"`
}

// Start is a place to come.
type Start struct {
	Place
	At time.Time `json:"at"`
	In string    `json:"in"`
	// After is the pod whose end makes the last of the room.
	After string `json:"after"`
}

// Set is some pods of one node, and how many they are in all.
type Set struct {
	Node  string   `json:"node"`
	Count int      `json:"count"`
	Pods  []string `json:"pods"` // the first ones
}

// Ask answers for pods that are not in the cluster, or wait in it.
func Ask(c *Cluster, k kube.Config, wanted []*corev1.Pod) *Answer {
	k.Preemption = false
	answer := &Answer{Policy: k.Policy.Name, Nodes: len(c.Nodes)}
	asked := make(map[string]bool)
	for _, p := range wanted {
		asked[facts.Key(p)] = true
	}
	for i := range c.Pods {
		p := &c.Pods[i]
		switch f := facts.PodOf(p, k.Name, k.GPU); {
		case f.Standing == facts.Charged:
			answer.Bound++
			if _, known := lasts(p); known {
				answer.Timed++
			}
		case f.Standing == facts.Waiting && !asked[facts.Key(p)]:
			answer.Waiting++
		}
	}
	s := newStage(c, k, asked)
	s.decide()
	for _, p := range wanted {
		s.enter(p)
	}
	s.decide()
	waits := make(map[string]bool)
	for _, p := range wanted {
		key := facts.Key(p)
		o := Outlook{Pod: key, Now: s.placed(key)}
		if o.Now == nil {
			standing := s.trial.Standing(key)
			o.Why, o.Unjudged = standing.Says, standing.Unjudged
			waits[key] = !o.Unjudged
		}
		answer.Pods = append(answer.Pods, o)
	}
	starts := s.play(waits)
	for i := range answer.Pods {
		o := &answer.Pods[i]
		if !waits[o.Pod] {
			continue
		}
		if start, known := starts[o.Pod]; known {
			o.Starts = &start
		} else {
			o.AsSoonAs = enough(c, k, wanted[i])
		}
	}
	whoPays(c, k, wanted, answer)
	return answer
}

// stage is a trial with the pods in it.
type stage struct {
	trial *kube.Trial
	now   time.Time
	pods  map[string]*corev1.Pod
	ends  ends
}

// newStage tells a trial of the cluster, but for some pods.
func newStage(c *Cluster, k kube.Config, but map[string]bool) *stage {
	s := &stage{trial: kube.NewTrial(k), now: c.Now, pods: make(map[string]*corev1.Pod)}
	s.trial.Pass(c.Now.Sub(time.Unix(0, 0)))
	for i := range c.Nodes {
		s.trial.NodeIs(&c.Nodes[i])
	}
	if k.Preemption {
		for i := range c.Budgets {
			s.trial.BudgetIs(&c.Budgets[i])
		}
	}
	for i := range c.Pods {
		if p := &c.Pods[i]; !but[facts.Key(p)] {
			s.enter(p)
		}
	}
	return s
}

// enter tells the trial of a pod.
func (s *stage) enter(p *corev1.Pod) {
	s.pods[facts.Key(p)] = p
	s.trial.PodIs(p)
	if p.Spec.NodeName == "" {
		return
	}
	began := p.CreationTimestamp.Time
	if p.Status.StartTime != nil {
		began = p.Status.StartTime.Time
	}
	s.lasts(p, began)
}

// lasts notes when a pod that began at an instant ends, if it said so.
func (s *stage) lasts(p *corev1.Pod, began time.Time) {
	if span, known := lasts(p); known {
		at := began.Add(span)
		if at.Before(s.now) {
			at = s.now // overdue: any moment
		}
		heap.Push(&s.ends, end{at: at, key: facts.Key(p)})
	}
}

// lasts says how long a pod runs at most, by its own word.
func lasts(p *corev1.Pod) (time.Duration, bool) {
	if span, err := time.ParseDuration(p.Annotations[inventory.RunFor]); err == nil && span >= 0 {
		return span, true
	}
	if s := p.Spec.ActiveDeadlineSeconds; s != nil && *s >= 0 && *s < math.MaxInt64/int64(time.Second) {
		return time.Duration(*s) * time.Second, true
	}
	return 0, false
}

// decide runs one cycle, all of whose binds succeed.
func (s *stage) decide() {
	for _, b := range s.trial.Decide() {
		s.trial.Done(kube.Outcome{Bind: b})
		if p := s.pods[b.Key]; p != nil {
			s.lasts(p, s.now)
		}
	}
}

func (s *stage) placed(key string) *Place {
	node, chosen, placed := s.trial.Chosen(key)
	if !placed {
		return nil
	}
	return &Place{Node: node, Score: chosen.Score.Total}
}

// play lets pods end in the order of time until those that wait are placed, and
// says when each is.
func (s *stage) play(waits map[string]bool) map[string]Start {
	starts, open := make(map[string]Start), 0
	for _, w := range waits { // order: a sum
		if w {
			open++
		}
	}
	began := s.now
	for played := 0; open > len(starts) && s.ends.Len() > 0 && played < mostEnds; played++ {
		next := heap.Pop(&s.ends).(end)
		s.trial.Pass(next.at.Sub(s.now))
		s.now = next.at
		s.trial.PodGone(next.key)
		s.decide()
		for key := range waits { // order: each has an entry of its own
			if _, known := starts[key]; known || !waits[key] {
				continue
			}
			if place := s.placed(key); place != nil {
				starts[key] = Start{Place: *place, At: s.now.UTC(), In: s.now.Sub(began).Round(time.Second).String(), After: next.key}
			}
		}
	}
	return starts
}

// enough finds the fewest pods of one node whose end makes room for a pod: those
// that it would evict if it came before all others.
func enough(c *Cluster, k kube.Config, wanted *corev1.Pod) *Set {
	first := wanted.DeepCopy()
	highest := int32(math.MaxInt32)
	first.Spec.Priority, first.Spec.PreemptionPolicy = &highest, nil
	k.Preemption = true
	s := newStage(&Cluster{Now: c.Now, Nodes: c.Nodes, Pods: ending(c.Pods)}, k, map[string]bool{facts.Key(wanted): true})
	s.enter(first)
	s.trial.Decide()
	return evicted(s.trial.Evictions(), facts.Key(first))
}

// ending are the bound pods, of which those that never end by themselves cannot be
// waited for.
func ending(pods []corev1.Pod) []corev1.Pod {
	var out []corev1.Pod
	for i := range pods {
		if pods[i].Spec.NodeName == "" {
			continue
		}
		p := pods[i]
		if owner := metav1.GetControllerOf(&p); owner != nil && owner.Kind == "DaemonSet" {
			p.Annotations = maps.Clone(p.Annotations)
			if p.Annotations == nil {
				p.Annotations = make(map[string]string)
			}
			p.Annotations[corev1.MirrorPodAnnotationKey] = "stays"
		}
		out = append(out, p)
	}
	return out
}

// whoPays says who would be evicted for the pods that wait, under preemption.
func whoPays(c *Cluster, k kube.Config, wanted []*corev1.Pod, answer *Answer) {
	asked := make(map[string]bool)
	for _, p := range wanted {
		asked[facts.Key(p)] = true
	}
	k.Preemption = true
	s := newStage(c, k, asked)
	s.decide()
	s.trial.Evictions() // for those who wait already
	for _, p := range wanted {
		s.enter(p)
	}
	s.decide()
	evictions := s.trial.Evictions()
	for i := range answer.Pods {
		if o := &answer.Pods[i]; o.Now == nil && !o.Unjudged {
			o.Evicts = evicted(evictions, o.Pod)
			if standing := s.trial.Standing(o.Pod); o.Evicts == nil && standing.Says != "" {
				o.Why = standing.Says // it names budgets that keep others
			}
		}
	}
}

// evicted is the set that goes for one pod; nil where nobody does.
func evicted(list []kube.Eviction, key string) *Set {
	for i := range list {
		e := &list[i]
		if len(e.Victims) == 0 || !slices.ContainsFunc(e.Holders, func(r kube.Ref) bool { return r.Key == key }) {
			continue
		}
		out := &Set{Node: e.Node, Count: len(e.Victims)}
		for _, v := range e.Victims {
			out.Pods = append(out.Pods, v.Key)
		}
		slices.Sort(out.Pods)
		out.Pods = out.Pods[:min(len(out.Pods), mostNamed)]
		return out
	}
	return nil
}

// end is when a pod ends.
type end struct {
	at  time.Time
	key string
}

// ends is a heap of them, the earliest first.
type ends []end

func (e ends) Len() int { return len(e) }
func (e ends) Less(i, j int) bool {
	return cmp.Or(e[i].at.Compare(e[j].at), cmp.Compare(e[i].key, e[j].key)) < 0
}
func (e ends) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *ends) Push(x any)   { *e = append(*e, x.(end)) }
func (e *ends) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	*e = (*e)[:last]
	return x
}

// String returns the place as it is shown.
func (p *Place) String() string {
	return fmt.Sprintf("%s (score %.3f)", p.Node, float64(p.Score)/decision.ScoreOne)
}
