package gang_test

import (
	"fmt"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/fit"
	"github.com/headrace-dev/headrace/internal/core/gang"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// town is a small cluster: zones of racks of nodes, with two islands of two cards
// on each, some of them taken.
type town struct {
	*cluster.Ledger
	names  cluster.Interner
	shapes []cluster.ShapeID // of one card, of two, of half of one
	groups map[string]cluster.GroupID
}

func newTown() *town {
	t := &town{Ledger: cluster.NewLedger(), groups: make(map[string]cluster.GroupID)}
	t.AddClass(cluster.Class{Name: "any", Key: 1})
	for i, r := range []cluster.DeviceRequest{{Count: 1, Milli: 1000}, {Count: 2, Milli: 1000}, {Count: 1, Milli: 500}} {
		t.shapes = append(t.shapes, t.AddShape(cluster.Shape{Key: uint64(10 + i), Need: cluster.MakeVector(100, 1, 1), Devices: []cluster.DeviceRequest{r}}))
	}
	return t
}

func (t *town) domain(name string, level cluster.Level, parent cluster.DomainID) cluster.DomainID {
	return t.AddDomain(cluster.Domain{Name: name, Key: chance.HashString(name), Level: level, Parent: parent})
}

// node adds a node on which some cards are taken.
func (t *town) node(domain cluster.DomainID, taken []bool) {
	name := fmt.Sprintf("n%d", t.Nodes.Len())
	var devices []*cluster.DeviceSpec
	for i := range taken {
		devices = append(devices, &cluster.DeviceSpec{Name: fmt.Sprint(i), Memory: quantity.GiB, Model: t.names.Intern("m"), Island: int32(i / 2), NUMA: cluster.None, Sharing: cluster.SharingSlices})
	}
	id := t.AddNode(cluster.NodeSpec{
		Name: name, UID: name, Class: 0, Domain: domain, Authority: cluster.AuthorityAgent, Allocatable: cluster.MakeVector(9000, 1000, 50),
	}, devices, cluster.LifeReady, cluster.None)
	for i, is := range taken {
		if is {
			first := t.Node(id).Spec.FirstDevice
			old := t.pod(cluster.None, t.shapes[0])
			t.Charge(old, cluster.Placement{Node: id, Shape: t.shapes[0], Grants: []cluster.Grant{{Device: first + cluster.DeviceID(i), Milli: 1000, Memory: quantity.GiB}}}, cluster.PhaseRunning)
		}
	}
	t.SetSymbols(t.names.Symbols())
}

func (t *town) pod(group cluster.GroupID, shapes ...cluster.ShapeID) cluster.PodID {
	name := fmt.Sprintf("p%d", t.Pods.Len())
	return t.AddPod(cluster.Pod{
		Spec: &cluster.PodSpec{
			Name: name, UID: name, Shape: shapes[0], Alternatives: shapes[1:], Group: group, Queue: cluster.None,
			Job: cluster.None, Service: cluster.None, Rank: cluster.None,
		},
		Key: chance.HashString(name), Phase: cluster.PhaseWaiting, Placement: cluster.Nowhere(), LastNode: cluster.None, Intent: cluster.None, Budget: cluster.None,
	}, cluster.None)
}

// group adds a group below another.
func (t *town) group(name string, parent cluster.GroupID, edit func(*cluster.Group)) cluster.GroupID {
	id := t.AddGroup(cluster.Group{Name: name, Key: chance.HashString(name), Job: cluster.None, Queue: cluster.None}, cluster.None)
	t.ReviseGroup(id, func(g *cluster.Group) {
		g.Known = true
		edit(g)
	})
	t.SetParent(id, parent)
	t.groups[name] = id
	return id
}

// firstFit seats pods on the first node that takes them: the plain second
// implementation of what the engine does by score.
type firstFit struct {
	txn   *cluster.Txn
	atlas *gang.Atlas
}

func (s firstFit) Waiting(id cluster.GroupID) []cluster.PodID {
	var out []cluster.PodID
	for pod := range s.txn.View().Members(id) {
		if s.txn.View().Pod(pod).Phase == cluster.PhaseWaiting {
			out = append(out, pod)
		}
	}
	slices.SortFunc(out, func(a, b cluster.PodID) int {
		v := s.txn.View()
		if x, y := v.Shape(v.Pod(a).Spec.Shape).Milli(), v.Shape(v.Pod(b).Spec.Shape).Milli(); x != y {
			return int(y - x)
		}
		return int(a - b)
	})
	return out
}

func (s firstFit) Count(shape cluster.ShapeID) *gang.Count {
	return gang.NewCount(s.txn.View(), s.atlas, shape)
}

func (s firstFit) Seat(pod cluster.PodID, where gang.Where) bool {
	v := s.txn.View()
	spec := v.Pod(pod).Spec
	for i := 0; ; i++ {
		shape, more := spec.Asks(i)
		if !more || where.First && i > 0 {
			return false
		}
		nodes := where.Nodes
		if nodes == nil {
			nodes = s.atlas.Nodes(s.atlas.Top())
		}
		for _, node := range nodes {
			if !fit.Check(v, shape, node).None() {
				continue
			}
			grants, ok := fit.Grants(v, v.Shape(shape), v.Node(node))
			if where.Island != cluster.None {
				grants, ok = fit.GrantsOn(v, v.Shape(shape), v.Node(node), where.Island)
			}
			if ok && s.txn.Place(pod, cluster.Placement{Node: node, Shape: shape, Grants: grants}) == nil {
				return true
			}
		}
	}
}

func (s firstFit) Binds(pod cluster.PodID, where gang.Where) decision.Reason {
	v := s.txn.View()
	shape := v.Pod(pod).Spec.Shape
	if where.Nodes == nil {
		return fit.ExplainPod(v, pod, shape)
	}
	var tally fit.Tally
	for _, node := range where.Nodes {
		why := fit.Check(v, shape, node)
		if why.None() && where.Island != cluster.None {
			why = fit.Linked(v, shape, node, where.Island)
		}
		tally.Set(node, why)
	}
	return tally.Reason()
}

func (s firstFit) Queue(cluster.PodID, int32) decision.Reason { return decision.Reason{} }

func (s firstFit) Move(pods []cluster.PodID, places []cluster.Placement) bool {
	for _, pod := range pods {
		if s.txn.Evict(pod) != nil {
			return false
		}
	}
	for i, pod := range pods {
		if s.txn.Place(pod, places[i]) != nil {
			return false
		}
	}
	return true
}

func (s firstFit) Attempt(do func() bool) bool {
	mark := s.txn.Mark()
	if do() {
		return true
	}
	s.txn.Rollback(mark)
	return false
}

// search is one on a transaction of the town as it is.
func (t *town) search(budget int64) (*gang.Search, *cluster.Txn) {
	txn := cluster.Begin(t.Freeze())
	atlas := gang.NewAtlas(txn.View(), true)
	return &gang.Search{View: txn.View(), Atlas: atlas, Seats: firstFit{txn, atlas}, Seed: 1, Left: &budget, Gather: true}, txn
}
