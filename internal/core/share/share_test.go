package share

import (
	"cmp"
	"math/big"
	"slices"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"pgregory.net/rapid"
)

// family is a row with children, for pouring by itself.
type family struct {
	total                 int64
	quota, demand, weight []int64
}

func drawFamily(t *rapid.T) *family {
	n := rapid.IntRange(1, 7).Draw(t, "children")
	most := rapid.SampledFrom([]int64{3, 20, 1000, 8_000_000}).Draw(t, "most")
	list := func(name string, top int64) []int64 {
		return rapid.SliceOfN(rapid.Int64Range(0, top), n, n).Draw(t, name)
	}
	return &family{
		total: rapid.Int64Range(0, 3*most).Draw(t, "total"),
		quota: list("quota", most), demand: list("demand", most), weight: list("weight", rapid.SampledFrom([]int64{1, 3, 4000}).Draw(t, "weights")),
	}
}

func (f *family) poured() []int64 {
	s := &Standing{dims: []cluster.Dim{cluster.DimMilli}}
	root := row{fair: []int64{f.total}}
	for i := range f.quota {
		root.children = append(root.children, int32(i))
		s.rows = append(s.rows, row{weight: f.weight[i], quota: []int64{f.quota[i]}, demand: []int64{f.demand[i]}, fair: []int64{0}})
	}
	s.rows = append(s.rows, root)
	s.pour(s.root())
	var out []int64
	for _, child := range root.children {
		out = append(out, s.rows[child].fair[0])
	}
	return out
}

// exact pours the same in rational numbers, by raising the level step by step.
func (f *family) exact() []*big.Rat {
	n := len(f.quota)
	out, left, sum := make([]*big.Rat, n), big.NewRat(f.total, 1), new(big.Rat)
	for i := range n {
		out[i] = big.NewRat(min(f.quota[i], f.demand[i]), 1)
		sum.Add(sum, out[i])
	}
	if sum.Cmp(left) > 0 {
		for i := range n {
			out[i].Mul(out[i], new(big.Rat).Quo(left, sum))
		}
		return out
	}
	left.Sub(left, sum)
	for _, weightless := range []bool{false, true} {
		for f.raise(out, left, weightless) {
		}
	}
	return out
}

// raise gives to all of one kind who want more, until the first of them has enough or
// nothing is left.
func (f *family) raise(out []*big.Rat, left *big.Rat, weightless bool) bool {
	var thirsty []int
	weights, step := new(big.Rat), (*big.Rat)(nil)
	weight := func(i int) *big.Rat { return big.NewRat(max(f.weight[i], 1), 1) }
	for i := range out {
		want := new(big.Rat).Sub(big.NewRat(f.demand[i], 1), out[i])
		if want.Sign() == 0 || (f.weight[i] == 0) != weightless {
			continue
		}
		thirsty = append(thirsty, i)
		weights.Add(weights, weight(i))
		if level := want.Quo(want, weight(i)); step == nil || level.Cmp(step) < 0 {
			step = level
		}
	}
	if step == nil || left.Sign() == 0 {
		return false
	}
	if all := new(big.Rat).Quo(left, weights); all.Cmp(step) < 0 {
		step = all
	}
	for _, i := range thirsty {
		more := new(big.Rat).Mul(step, weight(i))
		out[i].Add(out[i], more)
		left.Sub(left, more)
	}
	return true
}

// Fair shares are those of water-filling in exact numbers, rounded to the next
// thousandth up or down; together they are what there is, or all that is wanted.
func TestFairSharesAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFamily(t)
		got, want := f.poured(), f.exact()
		sum, demand := int64(0), int64(0)
		for i := range got {
			apart := new(big.Rat).Sub(big.NewRat(got[i], 1), want[i])
			if apart.Abs(apart).Cmp(big.NewRat(1, 1)) >= 0 || got[i] > f.demand[i] {
				t.Fatalf("%+v: child %d gets %d, exactly %v", *f, i, got[i], want[i].FloatString(3))
			}
			sum, demand = sum+got[i], demand+f.demand[i]
		}
		if sum != min(demand, f.total) {
			t.Fatalf("%+v: shares %v sum to %d, want %d", *f, got, sum, min(demand, f.total))
		}
	})
}

// More to share out makes nobody's share smaller, up to what rounding moves.
func TestFairSharesAreMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFamily(t)
		before := f.poured()
		f.total += rapid.Int64Range(1, 1000).Draw(t, "more")
		for i, after := range f.poured() {
			if after < before[i]-1 {
				t.Fatalf("%+v: child %d gets %d, with less to share %d", *f, i, after, before[i])
			}
		}
	})
}

// drawForest is a ledger with random queues, and pods that wait.
func drawForest(t *rapid.T) *cluster.Ledger {
	l := cluster.NewLedger()
	class := l.AddClass(cluster.Class{Name: "any"})
	var shapes []cluster.ShapeID
	for i, count := range []int32{0, 1, 4} {
		s := cluster.Shape{Key: uint64(i), Need: cluster.MakeVector(1000, 0, 1)}
		if count > 0 {
			s.Devices = []cluster.DeviceRequest{{Count: count, Milli: quantity.WholeGPU}}
		}
		shapes = append(shapes, l.AddShape(s))
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "nodes") {
		var devices []*cluster.DeviceSpec
		for range 8 {
			devices = append(devices, &cluster.DeviceSpec{Sharing: cluster.SharingSlices})
		}
		name := string(rune('a' + i))
		l.AddNode(cluster.NodeSpec{
			Name: name, UID: name, Class: class, Domain: cluster.None, Authority: cluster.AuthorityAgent, Allocatable: cluster.MakeVector(32000, 1<<30, 100),
		}, devices, cluster.LifeReady, cluster.None)
	}
	for i := range rapid.IntRange(1, 8).Draw(t, "queues") {
		name := string(rune('p' + i))
		q := cluster.Queue{Name: name, Key: chance.HashString(name), Parent: cluster.QueueID(rapid.Int32Range(-1, int32(i)-1).Draw(t, "parent"))}
		q.Weight = quantity.Milli(rapid.SampledFrom([]int64{0, 1, 1000, 3000}).Draw(t, "weight"))
		q.DeservedMilli = quantity.MilliGPU(rapid.Int64Range(0, 12).Draw(t, "deserved") * 1000)
		q.LimitMilli = quantity.MilliGPU(rapid.SampledFrom([]int64{0, 0, 1000, 5000}).Draw(t, "limit"))
		if rapid.Bool().Draw(t, "cpu") {
			q.Deserved = cluster.MakeVector(rapid.Int64Range(0, 9000).Draw(t, "cpu deserved"), 0, 0)
		}
		q.Usage.History = rapid.Int64Range(0, 1<<40).Draw(t, "history")
		q.Usage.Hour[0] = rapid.Int64Range(0, 1<<32).Draw(t, "hour")
		l.AddQueue(q, cluster.None)
	}
	for i := range rapid.IntRange(0, 20).Draw(t, "pods") {
		name := string(rune('A' + i))
		l.AddPod(cluster.Pod{Key: chance.HashString(name), Phase: cluster.PhaseWaiting, Placement: cluster.Nowhere(), Spec: &cluster.PodSpec{
			Name: name, UID: name, Shape: rapid.SampledFrom(shapes).Draw(t, "shape"), Group: cluster.None, Job: cluster.None,
			Queue: cluster.QueueID(rapid.Int32Range(-1, int32(l.Queues.Len())-1).Draw(t, "queue")),
		}}, cluster.None)
	}
	return l
}

// In every tree quotas of siblings sum to what their bases do, which is no more than
// their parent has; fair shares sum to no more than their parent's, up to the whole
// cluster; and nobody gets more than it wants.
func TestStandingsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Survey(&drawForest(t).View)
		if s == nil {
			t.Skip("nothing was promised to any queue")
		}
		for i := range s.rows {
			r := &s.rows[i]
			for k := range s.dims {
				quota, base, fair := int64(0), int64(0), int64(0)
				for _, child := range r.children {
					c := &s.rows[child]
					quota, base, fair = quota+c.quota[k], base+c.deserved[k], fair+c.fair[k]
					if c.fair[k] < 0 || c.quota[k] < 0 || c.fair[k] > c.demand[k] {
						t.Fatalf("row %d: %+v", child, *c)
					}
				}
				if quota != base || fair > r.fair[k] || base > r.quota[k] {
					t.Fatalf("row %d: quotas of children sum to %d, bases to %d of %d, fair shares to %d of %d", i, quota, base, r.quota[k], fair, r.fair[k])
				}
			}
		}
	})
}

// Every pod has one turn, whatever weights, quotas and capacity are, and in whatever
// order they are asked for; and when a line was sifted, those who were kept.
func TestEveryPodHasOneTurn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawForest(t)
		s := Survey(&l.View)
		if s == nil {
			t.Skip("nothing was promised to any queue")
		}
		turns := func(pods []cluster.PodID, keep func(cluster.PodID) bool) (out []cluster.PodID) {
			line := s.Line(&l.View, pods, Order{Compare: func(a, b cluster.PodID) int { return cmp.Compare(l.Pod(a).Key, l.Pod(b).Key) }})
			if keep != nil {
				line.Keep(func(cluster.ShapeID) bool { return false }, keep)
			}
			for pod, more := line.Next(); more; pod, more = line.Next() {
				out = append(out, pod)
			}
			return out
		}
		pods := l.AppendWaiting(nil)
		first, again := turns(pods, nil), turns(rapid.Permutation(pods).Draw(t, "order"), nil)
		if !slices.Equal(first, again) || !slices.Equal(slices.Sorted(slices.Values(first)), slices.Sorted(slices.Values(pods))) {
			t.Fatalf("pods %v have turns %v, asked in another order %v", pods, first, again)
		}
		odd := func(pod cluster.PodID) bool { return pod%2 == 1 }
		even := func(pod cluster.PodID) bool { return !odd(pod) }
		want := slices.Sorted(slices.Values(slices.DeleteFunc(slices.Clone(pods), even)))
		if kept := slices.Sorted(slices.Values(turns(pods, odd))); !slices.Equal(kept, want) {
			t.Fatalf("of pods %v the turns of %v are left, want %v", pods, kept, want)
		}
	})
}

// History loses half of what it says within its half-life.
func TestHistoryFades(t *testing.T) {
	l := cluster.NewLedger()
	id := l.AddQueue(cluster.Queue{Name: "q", Parent: cluster.None, Usage: cluster.Usage{History: 1 << 50}}, cluster.None)
	const halfLife = moment.Day
	for at := cluster.QuotaEpoch; at <= halfLife; at += cluster.QuotaEpoch {
		l.SetNow(moment.Instant(at))
		l.BeginEpoch(halfLife)
	}
	got, want := l.Queue(id).Usage.History, int64(1<<49)
	if apart := got - want; apart < -want/1000 || apart > want/1000 {
		t.Errorf("after its half-life history is %d of %d", got, int64(1<<50))
	}
}

// Within a queue the turns go by the order of pods, also when the line is sifted on the
// way.
func TestTurnsWithinAQueueAreInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawForest(t)
		s := Survey(&l.View)
		if s == nil {
			t.Skip("nothing was promised to any queue")
		}
		line := s.Line(&l.View, l.AppendWaiting(nil), Order{Compare: func(a, b cluster.PodID) int { return cmp.Compare(l.Pod(a).Key, l.Pod(b).Key) }})
		last := make(map[cluster.QueueID]uint64)
		for pod, more := line.Next(); more; pod, more = line.Next() {
			p := l.Pod(pod)
			if before, any := last[p.Spec.Queue]; any && p.Key <= before {
				t.Fatalf("pod %s of queue %d has its turn after one that comes later", p.Spec.Name, p.Spec.Queue)
			}
			last[p.Spec.Queue] = p.Key
			if drop := rapid.IntRange(0, 20).Draw(t, "drop"); drop > 0 {
				line.Keep(func(cluster.ShapeID) bool { return false }, func(id cluster.PodID) bool { return int(id) != drop })
			}
		}
	})
}

// A queue can take something back exactly where there is one to take it from.
func TestReclaimsAsAnyQueueSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawForest(t)
		s := Survey(&l.View)
		if s == nil {
			t.Skip("nothing was promised to any queue")
		}
		v := &l.View
		for i := range v.Queues.Len() {
			v.Queue(cluster.QueueID(i)).UsedMilli = quantity.MilliGPU(rapid.Int64Range(0, 9).Draw(t, "used") * 1000)
		}
		need := cluster.Amount{Milli: quantity.MilliGPU(rapid.Int64Range(0, 4).Draw(t, "need") * 1000)}
		for taker := cluster.QueueID(cluster.None); int(taker) < v.Queues.Len(); taker++ {
			want := false
			for victim := cluster.QueueID(cluster.None); int(victim) < v.Queues.Len(); victim++ {
				above, _ := s.Above(v, taker, victim, &need, &need)
				want = want || above && s.Entitled(v, taker, victim, &need)
			}
			if got := s.Reclaims(v, taker, &need); got != want {
				t.Fatalf("queue %d reclaims %v, one by one %v", taker, got, want)
			}
		}
	})
}
