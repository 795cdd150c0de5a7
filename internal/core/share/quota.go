package share

import (
	"cmp"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// secondsOfHour is for how long a queue has committed to use what it deserves.
const secondsOfHour = 3600

// grant shares the quota of a row out to those below. First bases: what each
// deserves, scaled down where it is more than there is. Then each follows its use
// of the last hour, between half and one and a half of its base, and all are scaled
// so that they sum to what their bases do.
func (s *Standing) grant(v *cluster.View, at int32) {
	r := &s.rows[at]
	if len(r.children) == 0 {
		return
	}
	for k, d := range s.dims {
		base := make([]int64, len(r.children))
		for i, child := range r.children {
			base[i] = s.deserves(v, child, d)
		}
		s.ownBase(r, base, k)
		base = within(base, r.quota[k])
		for i, child := range r.children {
			s.rows[child].deserved[k] = base[i]
		}
		quota := base
		if d == cluster.DimMilli {
			quota = s.dynamic(v, r.children, base)
		}
		for i, child := range r.children {
			s.rows[child].quota[k] = quota[i]
		}
	}
	for _, child := range r.children {
		s.grant(v, child)
	}
}

// deserves is what a queue was bought in one dimension: what it says, else what those
// below it say.
func (s *Standing) deserves(v *cluster.View, at int32, d cluster.Dim) int64 {
	r := &s.rows[at]
	if r.queue == cluster.None || r.own {
		return 0
	}
	q := v.Queue(r.queue)
	if stated := amount(q.DeservedMilli, &q.Deserved, d); stated > 0 {
		return stated
	}
	sum := int64(0)
	for _, child := range r.children {
		sum = quantity.AddSaturating(sum, s.deserves(v, child, d))
	}
	return sum
}

// ownBase gives what is left of an inner queue's quota, when those below have got
// theirs, to pods of its own.
func (s *Standing) ownBase(r *row, base []int64, k int) {
	left := r.quota[k]
	for _, b := range base {
		left -= min(b, left)
	}
	for i, child := range r.children {
		if s.rows[child].own {
			base[i] = left
		}
	}
}

// dynamic moves bases by the use of the last hour: base · (1 + (1 - use/committed)/2).
func (s *Standing) dynamic(v *cluster.View, children []int32, base []int64) []int64 {
	moved, sum := make([]int64, len(base)), int64(0)
	for i, child := range children {
		sum += base[i]
		r := &s.rows[child]
		if r.queue == cluster.None || r.own || base[i] == 0 {
			moved[i] = base[i]
			continue
		}
		committed := base[i] * secondsOfHour
		use := min(v.Queue(r.queue).Usage.LastHour(), 2*committed)
		most := base[i] + base[i]/2
		moved[i] = min(max(quantity.MulDiv(base[i], 3*committed-use, 2*committed), base[i]/2), most)
	}
	return scaled(moved, sum)
}

// within scales amounts down where they sum to more than there is.
func within(amounts []int64, total int64) []int64 {
	sum := int64(0)
	for _, a := range amounts {
		sum = quantity.AddSaturating(sum, a)
	}
	if sum <= total {
		return amounts
	}
	return scaled(amounts, total)
}

// scaled returns amounts in the given proportions that sum to total; all nothing
// where the proportions are.
func scaled(parts []int64, total int64) []int64 {
	sum := int64(0)
	for _, p := range parts {
		sum = quantity.AddSaturating(sum, p)
	}
	out := make([]int64, len(parts))
	if sum == 0 {
		return out
	}
	given := int64(0)
	for i, p := range parts {
		out[i] = quantity.MulDiv(total, p, sum)
		given += out[i]
	}
	// What rounding left goes to those who lost most by it, one each.
	order := make([]int, len(parts))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(lost(out[b], parts[b], total, sum), lost(out[a], parts[a], total, sum))
	})
	for i := 0; given < total && i < len(order); i++ {
		if parts[order[i]] > 0 {
			out[order[i]]++
			given++
		}
	}
	return out
}

// lost is the remainder of total·part/sum, of which got is the whole part.
func lost(got, part, total, sum int64) uint64 {
	return uint64(total)*uint64(part) - uint64(got)*uint64(sum) // exact modulo 2^64, and below sum
}

// weigh lowers the weights of those who used more than their part before, among
// siblings: weight · (1 + its part of the weights - its part of the use), between a
// quarter and twice of it.
func (s *Standing) weigh(v *cluster.View, at int32) {
	r := &s.rows[at]
	weights, history := int64(0), int64(0)
	of := func(child int32) int64 {
		if c := &s.rows[child]; c.queue != cluster.None && !c.own {
			return v.Queue(c.queue).Usage.History
		}
		return 0
	}
	for _, child := range r.children {
		weights = quantity.AddSaturating(weights, s.rows[child].weight)
		history = quantity.AddSaturating(history, of(child))
	}
	if history > 0 && weights > 0 {
		for _, child := range r.children {
			c := &s.rows[child]
			w := c.weight
			// In thousandths: a queue of weight 1 among many must not round to nothing.
			part := quantity.MulDiv(w, 1000, weights) - quantity.MulDiv(of(child), 1000, history)
			c.weight = min(max(quantity.MulDiv(w, 1000+part, 1000), (w+3)/4), 2*w)
		}
	}
	for _, child := range r.children {
		s.weigh(v, child)
	}
}

// pour shares the fair share of a row out to those below: quota up to demand, then
// the rest by weight among those who want more.
func (s *Standing) pour(at int32) {
	r := &s.rows[at]
	if len(r.children) == 0 {
		return
	}
	for k := range s.dims {
		left := r.fair[k]
		want := make([]int64, len(r.children))
		first := make([]int64, len(r.children))
		for i, child := range r.children {
			c := &s.rows[child]
			first[i] = min(c.quota[k], c.demand[k])
		}
		first = within(first, left)
		for i, child := range r.children {
			c := &s.rows[child]
			c.fair[k] = first[i]
			want[i] = c.demand[k] - first[i]
			left -= first[i]
		}
		for _, weightless := range [...]bool{false, true} {
			left = s.fill(r.children, want, k, left, weightless)
		}
	}
	for _, child := range r.children {
		s.pour(child)
	}
}

// fill shares out what is left by weight; those with weight 0 come last, and are
// alike.
func (s *Standing) fill(children []int32, want []int64, k int, left int64, weightless bool) int64 {
	for left > 0 {
		parts := make([]int64, len(children))
		thirsty := false
		for i, child := range children {
			w := s.rows[child].weight
			if want[i] == 0 || (w == 0) != weightless {
				continue
			}
			thirsty = true
			parts[i] = max(w, 1)
		}
		if !thirsty {
			return left
		}
		full := false
		parts = scaled(parts, left)
		for i, child := range children {
			if parts[i] >= want[i] && want[i] > 0 && (s.rows[child].weight == 0) == weightless {
				s.rows[child].fair[k] += want[i]
				left -= want[i]
				want[i], full = 0, true
			}
		}
		if full {
			continue // the others share again what these left
		}
		for i, child := range children {
			s.rows[child].fair[k] += parts[i]
			want[i] -= parts[i]
		}
		return 0
	}
	return left
}
