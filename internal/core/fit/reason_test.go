package fit_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/fit"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// Each constraint is named when it binds, with what is needed and what is there.
func TestCheckNamesTheConstraintThatBinds(t *testing.T) {
	taken := func(d cluster.DeviceID) cluster.Grant {
		return cluster.Grant{Device: d, Milli: 1000, Memory: 80 * quantity.GiB}
	}
	for _, c := range []struct {
		name  string
		build func(r *rack) cluster.ShapeID // one node, and the shape
		want  decision.Reason
	}{
		{name: "fits", build: func(r *rack) cluster.ShapeID {
			r.node(r.gpus(4, "H200"))
			return r.shape(whole(4))
		}},
		{name: "model", build: func(r *rack) cluster.ShapeID {
			r.node(r.gpus(4, "L4"))
			return r.shape(with(whole(1), func(q *cluster.DeviceRequest) { q.Models = []cluster.Symbol{r.names.Intern("H200")} }))
		}, want: decision.Reason{Code: decision.DeviceModel, Need: 1}},
		{name: "memory size", build: func(r *rack) cluster.ShapeID {
			r.node(r.gpus(4, "H200"))
			return r.shape(with(whole(1), func(q *cluster.DeviceRequest) { q.MinMemory = 141 << 30 }))
		}, want: decision.Reason{Code: decision.DeviceMemorySize, Need: 141 << 30, Have: 80 << 30}},
		{name: "kind: shares", build: func(r *rack) cluster.ShapeID {
			d := r.gpus(1, "H200")
			d[0].Sharing = cluster.SharingNone
			r.node(d)
			return r.shape(share(500, 0))
		}, want: decision.Reason{Code: decision.DeviceKind, Need: 1}},
		{name: "kind: profiles", build: func(r *rack) cluster.ShapeID {
			r.node(r.gpus(2, "H200"))
			return r.shape(cluster.DeviceRequest{Count: 1, Profile: r.names.Intern("2g")})
		}, want: decision.Reason{Code: decision.DeviceKind, Need: 1}},
		{name: "count", build: func(r *rack) cluster.ShapeID {
			r.node(r.gpus(4, "H200"))
			return r.shape(whole(5))
		}, want: decision.Reason{Code: decision.DeviceCount, Need: 5, Have: 4}},
		{name: "count without devices", build: func(r *rack) cluster.ShapeID {
			r.node(nil)
			return r.shape(share(1, 0))
		}, want: decision.Reason{Code: decision.DeviceCount, Need: 1}},
		{name: "count of two requests", build: func(r *rack) cluster.ShapeID {
			r.node(r.gpus(4, "H200"))
			return r.shape(whole(3), whole(2))
		}, want: decision.Reason{Code: decision.DeviceCount, Need: 5, Have: 4}},
		{name: "island", build: func(r *rack) cluster.ShapeID {
			r.node(r.gpus(4, "H200"))
			return r.shape(with(whole(3), func(q *cluster.DeviceRequest) { q.SameIsland = true }))
		}, want: decision.Reason{Code: decision.DeviceLink, Need: 3, Have: 2}},
		{name: "no island", build: func(r *rack) cluster.ShapeID {
			d := r.gpus(2, "H200")
			d[0].Island, d[1].Island = cluster.None, cluster.None
			r.node(d)
			return r.shape(with(whole(2), func(q *cluster.DeviceRequest) { q.SameIsland = true }))
		}, want: decision.Reason{Code: decision.DeviceLink, Need: 2, Have: 1}},
		{name: "NUMA", build: func(r *rack) cluster.ShapeID {
			r.node(r.gpus(4, "H200"))
			return r.shape(with(whole(4), func(q *cluster.DeviceRequest) { q.SameNUMA = true }))
		}, want: decision.Reason{Code: decision.DeviceLink, Need: 4, Have: 2}},
		{name: "capacity", build: func(r *rack) cluster.ShapeID {
			r.node(nil)
			return r.AddShape(cluster.Shape{Need: cluster.MakeVector(1, 17<<30, 1)})
		}, want: decision.Reason{Code: decision.NodeCapacity, Dim: cluster.DimMemory, Need: 17 << 30, Have: 16 << 30}},
		{name: "authority", build: func(r *rack) cluster.ShapeID {
			r.node(r.gpus(2, "H200"), func(s *cluster.NodeSpec) { s.Authority = cluster.AuthorityPlugin })
			return r.shape(share(500, 0))
		}, want: decision.Reason{Code: decision.DeviceAuthority}},
		{name: "authority over islands", build: func(r *rack) cluster.ShapeID {
			r.node(r.gpus(2, "H200"), func(s *cluster.NodeSpec) { s.Authority = cluster.AuthorityPlugin })
			return r.shape(with(whole(2), func(q *cluster.DeviceRequest) { q.SameIsland = true }))
		}, want: decision.Reason{Code: decision.DeviceAuthority}},
		{name: "excluded", build: func(r *rack) cluster.ShapeID {
			r.node(nil)
			id := r.shape()
			r.SetFacts(&cluster.Facts{Excluded: map[cluster.ShapeID][]uint64{id: {1}}})
			return id
		}, want: decision.Reason{Code: decision.NodeExcluded}},
		{name: "selector", build: func(r *rack) cluster.ShapeID {
			r.node(nil)
			return r.AddShape(cluster.Shape{Selector: [][]cluster.Requirement{{{Key: r.names.Intern("zone"), Op: cluster.OpExists}}}})
		}, want: decision.Reason{Code: decision.NodeSelector}},
		{name: "taint", build: func(r *rack) cluster.ShapeID {
			r.node(nil, func(s *cluster.NodeSpec) { s.Taints = []cluster.Taint{{Key: r.names.Intern("gpu")}} })
			return r.shape()
		}, want: decision.Reason{Code: decision.NodeTaint}},
		{name: "life", build: func(r *rack) cluster.ShapeID {
			r.SetLife(r.node(nil), cluster.LifeDraining)
			return r.shape()
		}, want: decision.Reason{Code: decision.NodeLife}},
		{name: "room", build: func(r *rack) cluster.ShapeID {
			node := r.node(nil)
			id := r.AddShape(cluster.Shape{Key: 2, Need: cluster.MakeVector(5000, 0, 1)})
			r.Charge(r.pod(id), cluster.Placement{Node: node, Shape: id}, cluster.PhaseRunning)
			return id
		}, want: decision.Reason{Code: decision.NodeRoom, Dim: cluster.DimCPU, Need: 5000, Have: 3000}},
		{name: "share", build: func(r *rack) cluster.ShapeID {
			r.fill(r.node(r.gpus(2, "H200")), cluster.Grant{Device: 0, Milli: 600}, cluster.Grant{Device: 1, Milli: 700})
			return r.shape(share(500, 0))
		}, want: decision.Reason{Code: decision.DeviceRoom, Need: 500, Have: 400}},
		{name: "shares of several devices", build: func(r *rack) cluster.ShapeID {
			r.fill(r.node(r.gpus(2, "H200")), cluster.Grant{Device: 0, Milli: 600})
			return r.shape(with(share(500, 0), func(q *cluster.DeviceRequest) { q.Count = 2 }))
		}, want: decision.Reason{Code: decision.DeviceRoom, Need: 500, Have: 400}},
		{name: "shares of linked devices", build: func(r *rack) cluster.ShapeID {
			r.fill(r.node(r.gpus(4, "H200")), cluster.Grant{Device: 0, Milli: 600}, cluster.Grant{Device: 2, Milli: 600})
			return r.shape(with(share(500, 0), func(q *cluster.DeviceRequest) { q.Count, q.SameIsland = 2, true }))
		}, want: decision.Reason{Code: decision.DeviceLinkRoom, Need: 2, Have: 1}},
		{name: "device memory", build: func(r *rack) cluster.ShapeID {
			r.fill(r.node(r.gpus(2, "H200")), cluster.Grant{Device: 0, Milli: 900}, cluster.Grant{Device: 1, Milli: 100, Memory: 70 << 30})
			return r.shape(share(500, 20<<30))
		}, want: decision.Reason{Code: decision.DeviceMemoryRoom, Need: 20 << 30, Have: 10 << 30}},
		{name: "profile", build: func(r *rack) cluster.ShapeID {
			r.fill(r.node(r.partitioned(r.gpus(1, "H200"))), cluster.Grant{Device: 0, Milli: 430, Profile: r.names.Intern("3g")}, cluster.Grant{Device: 0, Milli: 280, Profile: r.names.Intern("2g")})
			return r.shape(cluster.DeviceRequest{Count: 1, Profile: r.names.Intern("3g")})
		}, want: decision.Reason{Code: decision.DeviceProfileRoom, Need: 1}},
		{name: "idle", build: func(r *rack) cluster.ShapeID {
			r.fill(r.node(r.gpus(4, "H200")), taken(0), taken(3))
			return r.shape(whole(3))
		}, want: decision.Reason{Code: decision.DeviceIdle, Need: 3, Have: 2}},
		{name: "sick", build: func(r *rack) cluster.ShapeID {
			r.node(r.gpus(4, "H200"))
			r.SetHealth(1, cluster.Sick)
			return r.shape(whole(4))
		}, want: decision.Reason{Code: decision.DeviceIdle, Need: 4, Have: 3}},
		{name: "idle linked", build: func(r *rack) cluster.ShapeID {
			r.fill(r.node(r.gpus(4, "H200")), taken(0), taken(3))
			return r.shape(with(whole(2), func(q *cluster.DeviceRequest) { q.SameIsland = true }))
		}, want: decision.Reason{Code: decision.DeviceLinkRoom, Need: 2, Have: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRack()
			shape := c.build(r)
			r.SetSymbols(r.names.Symbols())
			got := fit.Check(&r.View, shape, 0)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("reason (-want +got):\n%s", diff)
			}
		})
	}
}

// The labels of a node are compared as Kubernetes compares them.
func TestSelector(t *testing.T) {
	for _, c := range []struct {
		name   string
		op     cluster.Operator
		key    string
		values []string
		number int64
		want   bool
	}{
		{name: "in", op: cluster.OpIn, key: "zone", values: []string{"a", "b"}, want: true},
		{name: "in others", op: cluster.OpIn, key: "zone", values: []string{"b"}},
		{name: "in none", op: cluster.OpIn, key: "zone"},
		{name: "absent in", op: cluster.OpIn, key: "rack", values: []string{"a"}},
		{name: "not in", op: cluster.OpNotIn, key: "zone", values: []string{"b"}, want: true},
		{name: "not in its own", op: cluster.OpNotIn, key: "zone", values: []string{"a"}},
		{name: "absent not in", op: cluster.OpNotIn, key: "rack", values: []string{"a"}, want: true},
		{name: "exists", op: cluster.OpExists, key: "zone", want: true},
		{name: "absent exists", op: cluster.OpExists, key: "rack"},
		{name: "absent", op: cluster.OpAbsent, key: "rack", want: true},
		{name: "present absent", op: cluster.OpAbsent, key: "zone"},
		{name: "greater", op: cluster.OpGreater, key: "gen", number: 11, want: true},
		{name: "not greater than itself", op: cluster.OpGreater, key: "gen", number: 12},
		{name: "less", op: cluster.OpLess, key: "gen", number: 13, want: true},
		{name: "not less than itself", op: cluster.OpLess, key: "gen", number: 12},
		{name: "negative", op: cluster.OpLess, key: "below", number: 0, want: true},
		{name: "no number", op: cluster.OpLess, key: "zone", number: 1 << 40},
		{name: "absent number", op: cluster.OpLess, key: "rack", number: 1 << 40},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRack()
			r.node(nil, func(s *cluster.NodeSpec) {
				for _, l := range [][2]string{{"zone", "a"}, {"gen", "12"}, {"below", "-3"}} {
					s.Labels = append(s.Labels, cluster.Label{Key: r.names.Intern(l[0]), Value: r.names.Intern(l[1])})
				}
			})
			term := cluster.Requirement{Key: r.names.Intern(c.key), Op: c.op, Number: c.number}
			for _, v := range c.values {
				term.Values = append(term.Values, r.names.Intern(v))
			}
			shape := r.AddShape(cluster.Shape{Selector: [][]cluster.Requirement{{term}}})
			if got := fit.Check(&r.View, shape, 0).None(); got != c.want {
				t.Errorf("%+v: got %t, want %t", term, got, c.want)
			}
			either := r.AddShape(cluster.Shape{Selector: [][]cluster.Requirement{{term}, {{Key: r.names.Intern("zone"), Op: cluster.OpExists}}}})
			if !fit.Check(&r.View, either, 0).None() {
				t.Error("the second alternative is met, yet the node is refused")
			}
		})
	}
}

func TestTolerations(t *testing.T) {
	const key, value = 1, 2
	taint := cluster.Taint{Key: key, Value: value, Effect: cluster.TaintNoSchedule}
	for _, c := range []struct {
		name  string
		taint cluster.Taint
		with  []cluster.Toleration
		want  bool
	}{
		{name: "none", taint: taint},
		{name: "only preferred", taint: cluster.Taint{Key: key, Effect: cluster.TaintPreferNoSchedule}, want: true},
		{name: "equal", taint: taint, with: []cluster.Toleration{{Key: key, Value: value}}, want: true},
		{name: "other value", taint: taint, with: []cluster.Toleration{{Key: key, Value: 3}}},
		{name: "any value", taint: taint, with: []cluster.Toleration{{Key: key, AnyValue: true}}, want: true},
		{name: "other key", taint: taint, with: []cluster.Toleration{{Key: 3, AnyValue: true}}},
		{name: "any key", taint: taint, with: []cluster.Toleration{{AnyValue: true}}, want: true},
		{name: "other effect", taint: taint, with: []cluster.Toleration{{Key: key, Value: value, Effect: cluster.TaintNoExecute}}},
		{name: "any effect", taint: taint, with: []cluster.Toleration{{Key: key, Value: value, Effect: cluster.TaintNoExecute, AnyEffect: true}}, want: true},
		{name: "the second", taint: taint, with: []cluster.Toleration{{Key: 3}, {Key: key, Value: value}}, want: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRack()
			r.node(nil, func(s *cluster.NodeSpec) { s.Taints = []cluster.Taint{c.taint} })
			if got := fit.Check(&r.View, r.AddShape(cluster.Shape{Tolerations: c.with}), 0).None(); got != c.want {
				t.Errorf("%+v with %+v: got %t, want %t", c.taint, c.with, got, c.want)
			}
		})
	}
}

// A queue and each above it are asked, the nearest first.
func TestQueueNamesTheOneAtItsLimit(t *testing.T) {
	r := newRack()
	root := r.AddQueue(cluster.Queue{Name: "root", Parent: cluster.None, LimitMilli: 3000}, cluster.None)
	team := r.AddQueue(cluster.Queue{Name: "team", Parent: root, LimitMilli: 2000, UsedMilli: 1000}, cluster.None)
	free := r.AddQueue(cluster.Queue{Name: "free", Parent: root}, cluster.None)
	for _, c := range []struct {
		name  string
		queue cluster.QueueID
		gpus  int32
		want  decision.Reason
	}{
		{name: "none", queue: cluster.None, gpus: 8},
		{name: "within", queue: team, gpus: 1},
		{name: "its own", queue: team, gpus: 2, want: decision.Reason{Code: decision.QueueLimit, Dim: cluster.DimMilli, Need: 3000, Have: 2000, Queue: team}},
		{name: "without a limit", queue: free, gpus: 3},
		{name: "the one above", queue: free, gpus: 4, want: decision.Reason{Code: decision.QueueLimit, Dim: cluster.DimMilli, Need: 4000, Have: 3000, Queue: root}},
	} {
		t.Run(c.name, func(t *testing.T) {
			shape := r.shape(whole(c.gpus))
			pod := r.pod(shape)
			r.Pod(pod).Spec.Queue = c.queue
			if diff := cmp.Diff(c.want, fit.Queue(&r.View, pod, shape)); diff != "" {
				t.Errorf("reason (-want +got):\n%s", diff)
			}
		})
	}
}

// Explain names the constraint of the nodes that came closest, the most that any
// of them has, and does not depend on the order of the nodes.
func TestExplainNamesWhatBindsMost(t *testing.T) {
	small := func(s *cluster.NodeSpec) { s.Allocatable = cluster.MakeVector(500, 16<<30, 10) }
	for _, order := range [][]int{{0, 1, 2, 3, 4}, {4, 3, 2, 1, 0}, {2, 0, 4, 1, 3}} {
		r := newRack()
		for _, i := range order {
			switch i {
			case 0:
				r.node(nil, small)
			case 1:
				r.fill(r.node(r.gpus(2, "H200")), cluster.Grant{Device: r.lastDevice(), Milli: 1})
			default:
				node := r.node(nil, func(s *cluster.NodeSpec) { s.Allocatable = cluster.MakeVector(int64(i)*1000, int64(8-i)<<30, 10) })
				full := r.AddShape(cluster.Shape{Key: 9, Need: cluster.MakeVector(int64(i)*1000-500, 0, 1)})
				r.Charge(r.pod(full), cluster.Placement{Node: node, Shape: full}, cluster.PhaseRunning)
			}
		}
		got := fit.Explain(&r.View, r.shape())
		want := decision.Reason{}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("order %v, a shape that fits (-want +got):\n%s", order, diff)
		}
		got = fit.Explain(&r.View, r.AddShape(cluster.Shape{Need: cluster.MakeVector(1000, 1<<30, 1), Devices: []cluster.DeviceRequest{whole(2)}}))
		want = decision.Reason{Code: decision.DeviceIdle, Need: 2, Have: 1, Nodes: 1, Of: 5}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("order %v, two devices (-want +got):\n%s", order, diff)
		}
	}
}

// lastDevice is the id of the device that was added last.
func (r *rack) lastDevice() cluster.DeviceID { return cluster.DeviceID(r.Devices.Len() - 1) }

func TestExplainWithoutNodes(t *testing.T) {
	r := newRack()
	shape := r.shape()
	if got := fit.Explain(&r.View, shape); got.Code != decision.NoNodes {
		t.Errorf("no nodes: got %+v", got)
	}
	r.RemoveNode(r.node(nil))
	if got := fit.Explain(&r.View, shape); got.Code != decision.NoNodes {
		t.Errorf("all nodes removed: got %+v", got)
	}
}
