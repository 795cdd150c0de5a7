package fit_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/fit"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// A survey counts every node once, in its class, by what binds there; where no
// node fits, its reason is that of Explain.
func TestAskCountsEveryNode(t *testing.T) {
	r := newRack()
	small := r.AddClass(cluster.Class{Name: "small"})
	inSmall := func(s *cluster.NodeSpec) { s.Class = small }
	tainted := func(s *cluster.NodeSpec) {
		s.Taints = []cluster.Taint{{Key: r.names.Intern("reserved"), Value: r.names.Intern("yes")}, {Key: r.names.Intern("soft"), Effect: cluster.TaintPreferNoSchedule}}
	}
	full := r.node(r.gpus(4, "H200"))
	half := r.node(r.gpus(4, "H200"))
	r.node(r.gpus(4, "H200"), tainted)
	r.node(r.gpus(1, "L4"), inSmall)
	r.node(nil, inSmall)
	first := r.Node(full).Spec.FirstDevice
	for i := range cluster.DeviceID(4) {
		r.fill(full, cluster.Grant{Device: first + i, Milli: 1000, Memory: 80 * quantity.GiB})
	}
	r.fill(half, cluster.Grant{Device: r.Node(half).Spec.FirstDevice, Milli: 1000, Memory: 80 * quantity.GiB})
	shape := r.shape(whole(4))
	got := fit.Ask(&r.View, shape)
	want := fit.Survey{
		Reason: decision.Reason{Code: decision.DeviceIdle, Need: 4, Have: 3, Nodes: 2, Of: 5},
		Nodes:  5,
		Classes: []fit.ClassSurvey{
			{Class: 0, Nodes: 3, Reasons: []decision.Reason{
				{Code: decision.DeviceIdle, Need: 4, Have: 3, Nodes: 2, Of: 3}, {Code: decision.NodeTaint, Nodes: 1, Of: 3},
			}},
			{Class: small, Nodes: 2, Reasons: []decision.Reason{{Code: decision.DeviceCount, Need: 4, Have: 1, Nodes: 2, Of: 2}}},
		},
		Closest: []cluster.NodeID{half, full},
		Taints:  []fit.TaintCount{{Taint: cluster.Taint{Key: r.names.Intern("reserved"), Value: r.names.Intern("yes")}, Nodes: 1}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("survey (-want +got):\n%s", diff)
	}
	if explained := fit.Explain(&r.View, shape); explained != got.Reason {
		t.Errorf("the survey's reason is %+v, Explain says %+v", got.Reason, explained)
	}
	one := fit.Ask(&r.View, r.shape(whole(1)))
	if one.Fits != 2 || !one.Reason.None() || fit.Remedies(&r.View, r.shape(whole(1)), &one) != nil {
		t.Errorf("one GPU: %+v, want two nodes that fit, no reason and no remedy", one)
	}
}

// What would help is said with names and amounts.
func TestRemedies(t *testing.T) {
	for _, c := range []struct {
		name  string
		build func(r *rack) cluster.ShapeID
		want  string
	}{
		{"no nodes", func(r *rack) cluster.ShapeID { return r.shape() }, "a node"},
		{"idle", func(r *rack) cluster.ShapeID {
			n := r.node(r.gpus(2, "H200"))
			r.fill(n, cluster.Grant{Device: 0, Milli: 1000})
			return r.shape(with(whole(2), func(q *cluster.DeviceRequest) { q.Models = []cluster.Symbol{r.names.Intern("H200")} }))
		}, "2 idle GPUs of model H200 on one node; the closest: n0"},
		{"taint", func(r *rack) cluster.ShapeID {
			r.node(nil, func(s *cluster.NodeSpec) {
				s.Taints = []cluster.Taint{{Key: r.names.Intern("a"), Value: r.names.Intern("b"), Effect: cluster.TaintNoExecute}}
			})
			return r.shape()
		}, "remove the taint a=b:NoExecute from a node, or tolerate it (1 node)"},
		{"labels", func(r *rack) cluster.ShapeID {
			r.node(nil)
			return r.AddShape(cluster.Shape{Key: 9, Selector: [][]cluster.Requirement{{
				{Key: r.names.Intern("a"), Values: []cluster.Symbol{r.names.Intern("b")}},
				{Key: r.names.Intern("c"), Op: cluster.OpNotIn, Values: []cluster.Symbol{r.names.Intern("d"), r.names.Intern("e")}},
			}}})
		}, "a node with the labels a=b, c not in (d, e)"},
		{"life", func(r *rack) cluster.ShapeID {
			r.SetLife(r.node(nil), cluster.LifeDraining)
			return r.shape()
		}, "one of the nodes made ready: n0"},
		{"count", func(r *rack) cluster.ShapeID {
			r.node(r.gpus(4, "H200"))
			return r.shape(whole(8))
		}, "a node with 8 GPUs / a request for at most 4 GPUs per pod"},
		{"capacity", func(r *rack) cluster.ShapeID {
			r.node(nil)
			return r.AddShape(cluster.Shape{Key: 9, Need: cluster.MakeVector(9000, 0, 1)})
		}, "a node with 9 CPU / a request for at most 8 CPU"},
		{"room", func(r *rack) cluster.ShapeID {
			shape := r.AddShape(cluster.Shape{Key: 9, Need: cluster.MakeVector(5000, 0, 1)})
			n := r.node(nil)
			r.Charge(r.pod(shape), cluster.Placement{Node: n, Shape: shape}, cluster.PhaseBound)
			return shape
		}, "5 CPU free on one node; the closest: n0"},
	} {
		r := newRack()
		shape := c.build(r)
		r.SetSymbols(r.names.Symbols())
		survey := fit.Ask(&r.View, shape)
		if got := strings.Join(fit.Remedies(&r.View, shape, &survey), " / "); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: remedies %q, want %q (reason %s)", c.name, got, c.want, survey.Reason.Describe(&r.View))
		}
	}
}

// Every constraint has a name of its own for programs.
func TestCodesHaveNames(t *testing.T) {
	var names []string
	for c := decision.Fits; c <= decision.GroupMembers; c++ {
		if c.Name() == "Other" || slices.Contains(names, c.Name()) {
			t.Errorf("code %d: name %q is missing or not unique", c, c.Name())
		}
		names = append(names, c.Name())
	}
}
