package journal_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/journal"
	"github.com/headrace-dev/headrace/internal/rivals"
	"github.com/headrace-dev/headrace/internal/world"
)

// A tape is a world that is recorded.
type tape struct {
	t    *testing.T
	w    *world.World
	out  *journal.Writer
	at   moment.Instant
	memo engine.Memo
	plan *engine.Policy
}

func (p *tape) apply(e world.Event) {
	p.t.Helper()
	p.at = p.at.Add(moment.Second)
	if err := p.w.Apply(p.at, e); err != nil {
		p.t.Fatalf("%T: %v", e, err)
	}
	p.out.Event(p.at, e)
}

func (p *tape) decide(number uint64) (placed int) {
	p.t.Helper()
	snapshot, c := p.w.Snapshot(), decision.Cycle{Number: number, Now: p.at}
	plan := engine.Decide(snapshot, c, p.plan, &p.memo)
	p.out.Cycle(c, plan.Digest(&snapshot.View))
	for _, d := range plan.Decisions {
		p.apply(world.Accepted{Decision: d})
		p.apply(world.Bound{Name: snapshot.Pod(d.Pod).Spec.Name})
	}
	return len(plan.Decisions)
}

// friend is a pod with one of each relation, drawn from a seed.
func friend(s *chance.Source, number int) world.PodAdded {
	pick := func(words ...string) string { return words[s.Below(int64(len(words)))] }
	app := []world.Requirement{{Key: "app", Op: cluster.OpIn, Values: []string{pick("a", "b")}}}
	e := world.PodAdded{
		Name: fmt.Sprintf("pod-%d", number), Namespace: pick("n", "m"), Labels: map[string]string{"app": pick("a", "b")},
		Request: world.Request{CPU: 100},
	}
	switch s.Below(5) {
	case 0:
		e.Ports = []world.Port{{Number: 80, Protocol: pick("TCP", "UDP")}}
	case 1:
		e.Near = []world.PodTerm{{Topology: "zone", Of: world.PodSelector{Labels: app}}}
	case 2, 4:
		e.Apart = []world.PodTerm{{Topology: "zone", Of: world.PodSelector{ByLabels: true, Where: []world.Requirement{{Key: "team", Op: cluster.OpExists}}, Labels: app}}}
	case 3:
		e.Spread = []world.Spread{{Topology: "zone", MaxSkew: 1, MinDomains: 2, Labels: app}}
	}
	return e
}

// TestRelationsReplay: a journal of pods with relations, whose labels change and
// whose namespaces become known late, replays digest for digest; without one of
// those events it does not.
func TestRelationsReplay(t *testing.T) {
	var text bytes.Buffer
	p := &tape{t: t, w: world.New(), out: journal.NewWriter(&text), plan: engine.Headrace()}
	p.out.Begin(p.plan, rivals.Side{})
	for i := range 6 {
		p.apply(world.NodeAdded{Name: fmt.Sprintf("node-%d", i), CPU: 4000, Pods: 9, Labels: map[string]string{"zone": fmt.Sprint(i % 3)}, Life: cluster.LifeReady})
	}
	s, placed := chance.New(7), 0
	for i := range 40 {
		p.apply(friend(s, i))
		switch i {
		case 10:
			p.apply(world.NamespaceKnown{Name: "n", Labels: map[string]string{"team": "x"}})
		case 20:
			p.apply(world.NamespaceKnown{Name: "m", Labels: map[string]string{"other": "x"}})
			p.apply(world.PodLabelled{Name: "pod-3", Labels: map[string]string{"app": "b"}})
		case 30:
			p.apply(world.NamespaceGone{Name: "n"})
		}
		placed += p.decide(uint64(i))
	}
	if err := p.out.Close(); err != nil {
		t.Fatal(err)
	}
	if placed < 10 || placed > 39 {
		t.Errorf("%d of 40 pods were placed; some and not all should be", placed)
	}
	got, err := journal.Replay("j", bytes.NewReader(text.Bytes()), policyOf)
	if err != nil || got.Differing != 0 || got.Cycles != 40 {
		t.Errorf("replayed %+v (%v), want 40 cycles and no difference", got, err)
	}
	var without []string
	for _, line := range strings.SplitAfter(text.String(), "\n") {
		if !strings.Contains(line, `"event":"namespace_`) {
			without = append(without, line)
		}
	}
	if got, err := journal.Replay("j", strings.NewReader(strings.Join(without, "")), policyOf); err == nil && got.Differing == 0 {
		t.Errorf("without what was told of namespaces the plans are the same: %+v", got)
	}
}
