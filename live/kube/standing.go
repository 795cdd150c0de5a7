package kube

import (
	"cmp"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/core/share"

	"github.com/headrace-dev/headrace/api/v1alpha1"

	"github.com/headrace-dev/headrace/live/explain"
)

// tenants says how it stands with all queues: parents before those below them,
// siblings by name.
func (l *queueLook) tenants() []explain.Tenant {
	v, s := l.view, share.Survey(l.view)
	waiting := waitingIn(v)
	var out []explain.Tenant
	var below func(parent cluster.QueueID)
	below = func(parent cluster.QueueID) {
		var children []cluster.QueueID
		for i := range v.Queues.Len() {
			if q := v.Queue(cluster.QueueID(i)); !q.Gone && q.Parent == parent {
				children = append(children, cluster.QueueID(i))
			}
		}
		slices.SortFunc(children, func(a, b cluster.QueueID) int { return cmp.Compare(v.Queue(a).Name, v.Queue(b).Name) })
		for _, id := range children {
			t := tenantOf(v, s, id)
			t.Waiting, t.Message = waiting[id], l.messages[t.Name]
			out = append(out, t)
			below(id)
		}
	}
	below(cluster.None)
	return out
}

// waitingIn counts the pods in line by queue, those below it included.
func waitingIn(v *cluster.View) map[cluster.QueueID]int {
	out := make(map[cluster.QueueID]int)
	for _, id := range v.AppendWaiting(nil) {
		for q := v.Pod(id).Spec.Queue; q != cluster.None; q = v.Queue(q).Parent {
			out[q]++
		}
	}
	return out
}

// tenantOf says how it stands with one queue: in GPUs, and in what else it states.
func tenantOf(v *cluster.View, s *share.Standing, id cluster.QueueID) explain.Tenant {
	q := v.Queue(id)
	out := explain.Tenant{Name: q.Name, Weight: int64(q.Weight)}
	if q.Parent != cluster.None {
		out.Parent = v.Queue(q.Parent).Name
	}
	stated := func(d cluster.Dim) bool { return q.Deserved.At(d) > 0 || q.Limit.At(d) > 0 }
	dims := max(q.Deserved.Dims(), q.Limit.Dims())
	amounts := func(milli quantity.MilliGPU, rest *cluster.Vector, counts func(cluster.Dim) bool) explain.Amounts {
		by := explain.Amounts{v1alpha1.GPUs: int64(milli)}
		for d := range dims {
			if counts(d) {
				by[v.DimName(d)] = rest.At(d)
			}
		}
		return by
	}
	out.Used = amounts(q.UsedMilli, &q.Used, stated)
	out.Deserved = amounts(q.DeservedMilli, &q.Deserved, func(d cluster.Dim) bool { return q.Deserved.At(d) > 0 })
	if q.Limited() {
		out.Limit = amounts(q.LimitMilli, &q.Limit, func(d cluster.Dim) bool { return q.Limit.At(d) > 0 })
		if q.LimitMilli == 0 {
			delete(out.Limit, v1alpha1.GPUs)
		}
	}
	if s != nil {
		judged := func(d cluster.Dim) bool { return q.Deserved.At(d) > 0 }
		quota, fair := s.Quota(id), s.Fair(id)
		out.Quota, out.Fair = amounts(quota.Milli, &quota.Rest, judged), amounts(fair.Milli, &fair.Rest, judged)
	}
	return out
}

// pathOf is the queue of that name and those above it, from there up.
func pathOf(all []explain.Tenant, name string) []explain.Tenant {
	var out []explain.Tenant
	for i := len(all) - 1; i >= 0; i-- { // parents come before those below them
		if all[i].Name == name {
			out, name = append(out, all[i]), all[i].Parent
		}
	}
	return out
}
