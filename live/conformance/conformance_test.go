package conformance

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/headrace-dev/headrace/live/kube"
	"github.com/headrace-dev/headrace/live/kube/facts"
	"github.com/headrace-dev/headrace/live/kube/upstream"
)

const (
	short, long = 200, 5000 // clusters
	// cycles bounds a trial: each places something, or is the last.
	cycles = 50
	// shown is how many clusters on which something is wrong are printed.
	shown = 10
)

var one = flag.Int64("seed", -1, "look at one cluster only")

// Wherever Headrace binds, upstream's filters agree, given the state before that
// bind; wherever they find room for a pod that waits, Headrace has said that it
// does not judge such pods yet.
func TestConformance(t *testing.T) {
	first, n := int64(0), int64(short)
	switch {
	case *one >= 0:
		first, n = *one, 1
	case os.Getenv("HEADRACE_LONG") != "":
		n = long
	}
	var sum figures
	failed := 0
	for seed := first; seed < first+n; seed++ {
		d := newDrawing(seed)
		f, wrong := compare(t, d.nodes, d.pods)
		sum.add(f)
		if wrong == "" {
			continue
		}
		nodes, pods, wrong := smallest(t, d.nodes, d.pods, wrong)
		t.Errorf("seed %d: %s\n%s", seed, wrong, dump(nodes, pods))
		if failed++; failed >= shown {
			t.Fatalf("no more than %d are shown", shown)
		}
	}
	t.Logf("%d clusters: %v", n, &sum)
	if *one < 0 && (sum.bound == 0 || sum.full == 0) {
		t.Errorf("%d pods were bound, %d found no room: nothing was compared", sum.bound, sum.full)
	}
}

// figures say what was compared.
type figures struct {
	bound, full int            // full: both find no room
	unready     int            // only a node that is not ready would take it
	held        int            // the room is kept for a pod that others leave for
	unjudged    map[string]int // placed by the filters and not judged by Headrace, by why
}

func (f *figures) add(g figures) {
	f.bound, f.full, f.unready, f.held = f.bound+g.bound, f.full+g.full, f.unready+g.unready, f.held+g.held
	for why, n := range g.unjudged { // order: sums
		f.hold(why, n)
	}
}

func (f *figures) hold(why string, n int) {
	if f.unjudged == nil {
		f.unjudged = make(map[string]int)
	}
	f.unjudged[why] += n
}

func (f *figures) String() string {
	var out strings.Builder
	total := 0
	for _, why := range slices.Sorted(maps.Keys(f.unjudged)) {
		total += f.unjudged[why]
		fmt.Fprintf(&out, "\n%6d %s", f.unjudged[why], why)
	}
	return fmt.Sprintf("%d pods bound and agreed, %d without room on both sides, %d would go to a node that is not ready, %d wait for room that is kept for others, %d have room and are held back:%s",
		f.bound, f.full, f.unready, f.held, total, out.String())
}

// sides are the two that are compared, and what both were told.
type sides struct {
	trial   *kube.Trial
	checker *upstream.Checker
	nodes   map[string]*corev1.Node
	pods    map[string]*corev1.Pod
}

func newSides(t *testing.T, nodes []*corev1.Node, pods []*corev1.Pod) *sides {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	client := fake.NewClientset()
	all := informers.NewSharedInformerFactory(client, 0) // never started: what it is to know is put in
	for _, n := range namespaces() {
		if err := all.Core().V1().Namespaces().Informer().GetIndexer().Add(n); err != nil {
			t.Fatal(err)
		}
	}
	checker, err := upstream.New(ctx, client, all)
	if err != nil {
		t.Fatal(err)
	}
	s := &sides{trial: kube.NewTrial(kube.Config{}), checker: checker, nodes: make(map[string]*corev1.Node), pods: make(map[string]*corev1.Pod)}
	for _, n := range namespaces() {
		s.trial.NamespaceIs(n)
	}
	for _, n := range nodes {
		s.trial.NodeIs(n)
		s.checker.NodeIs(n.Name, n)
		s.nodes[n.Name] = n
	}
	for _, p := range pods {
		s.tell(p)
	}
	return s
}

func (s *sides) tell(p *corev1.Pod) {
	s.pods[facts.Key(p)] = p
	s.trial.PodIs(p)
	s.checker.PodIs(facts.Key(p), p)
}

// compare places the pods and returns what was found, and what is wrong.
func compare(t *testing.T, nodes []*corev1.Node, pods []*corev1.Pod) (figures, string) {
	t.Helper()
	s := newSides(t, nodes, pods)
	var f figures
	for range cycles {
		binds := s.trial.Decide()
		if wrong := s.agree(binds); wrong != "" {
			return f, wrong
		}
		f.bound += len(binds)
		for _, b := range binds {
			s.trial.Done(kube.Outcome{Bind: b})
			p := s.pods[b.Key].DeepCopy()
			p.Spec.NodeName = b.Node
			s.tell(p)
		}
		if len(binds) == 0 {
			break
		}
	}
	if err := s.trial.Audit(); err != nil {
		return f, err.Error()
	}
	return f, s.left(&f)
}

// agree asks the filters about binds. A bind may need another one of the same
// cycle first; the order among them is left open.
func (s *sides) agree(binds []kube.Bind) string {
	open := slices.Clone(binds)
	for len(open) > 0 {
		var refused []kube.Bind
		var why string
		for _, b := range open {
			p := s.pods[b.Key]
			if p == nil || p.Spec.NodeName != "" || p.Spec.SchedulerName != kube.DefaultName || p.DeletionTimestamp != nil || len(p.Spec.SchedulingGates) > 0 {
				return fmt.Sprintf("%s is bound to %s and was not to be placed", b.Key, b.Node)
			}
			if _, err := s.checker.Reserve(b.Key, b.Node); err != nil {
				refused, why = append(refused, b), fmt.Sprintf("%s is bound to %s: %v", b.Key, b.Node, err)
			}
		}
		if len(refused) == len(open) {
			return why
		}
		open = refused
	}
	return ""
}

// left asks the filters about the pods that wait.
func (s *sides) left(f *figures) string {
	for _, key := range slices.Sorted(maps.Keys(s.pods)) {
		p := s.pods[key]
		if p.Spec.NodeName != "" || p.Spec.SchedulerName != kube.DefaultName || p.DeletionTimestamp != nil || len(p.Spec.SchedulingGates) > 0 {
			continue
		}
		room := s.checker.Feasible(p)
		unready := len(room) > 0
		room = slices.DeleteFunc(room, func(name string) bool {
			return !facts.NodeOf(s.nodes[name], kube.DefaultGPU, facts.DefaultLevels()).Ready
		})
		standing := s.trial.Standing(key)
		switch {
		case len(room) > 0 && standing.Unjudged:
			f.hold(standing.Says, 1)
		case len(room) > 0 && s.trial.Holds():
			f.held++ // by a pod for which others are on their way out
		case len(room) > 0:
			return fmt.Sprintf("%s waits (%s), and upstream's filters would let it onto %v", key, standing.Says, room)
		case unready:
			f.unready++
		default:
			f.full++
		}
	}
	return ""
}

// smallest leaves out nodes and pods while something is still wrong.
func smallest(t *testing.T, nodes []*corev1.Node, pods []*corev1.Pod, wrong string) ([]*corev1.Node, []*corev1.Pod, string) {
	t.Helper()
	for again := true; again; {
		again = false
		for i := range pods {
			fewer := slices.Delete(slices.Clone(pods), i, i+1)
			if _, still := compare(t, nodes, fewer); still != "" {
				pods, wrong, again = fewer, still, true
				break
			}
		}
		for i := range nodes {
			fewer := slices.Delete(slices.Clone(nodes), i, i+1)
			if _, still := compare(t, fewer, pods); still != "" {
				nodes, wrong, again = fewer, still, true
				break
			}
		}
	}
	return nodes, pods, wrong
}

// dump prints objects, one a line.
func dump(nodes []*corev1.Node, pods []*corev1.Pod) string {
	var out strings.Builder
	line := func(name string, fields ...any) {
		fmt.Fprintf(&out, "  %s", name)
		for _, f := range fields {
			text, err := json.Marshal(f)
			if err != nil {
				text = []byte(err.Error())
			}
			fmt.Fprintf(&out, " %s", text)
		}
		out.WriteByte('\n')
	}
	for _, n := range nodes {
		line(n.Name, n.Labels, n.Spec, n.Status.Allocatable, n.Status.Conditions, n.Status.DeclaredFeatures)
	}
	for _, p := range pods {
		line(facts.Key(p), p.Labels, p.DeletionTimestamp, p.Spec, p.Status.Phase, p.Status.NominatedNodeName, p.Status.ContainerStatuses)
	}
	return out.String()
}
