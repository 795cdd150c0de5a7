package yield

import (
	"cmp"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
)

// bound is what a set on a node costs at least, of choices that are admitted; any is
// false where nobody there can make room.
func (s *Search) bound(node cluster.NodeID, t *Taker, admit func(*choice) bool) (cost Cost, any bool) {
	n := s.txn.View().Node(node)
	if !n.TakesWork() || n.Overdrawn || len(n.Pods) == 0 {
		return cost, false
	}
	stock := s.stockOf(node).choices
	sum, surplus := cluster.Amount{}, cluster.Amount{}
	admitted := s.admitted[:0]
	for i := range stock {
		c := &stock[i]
		if !admit(c) {
			continue
		}
		admitted = append(admitted, c)
		// What goes with a whole counts twice where it is surplus as well: that is as well.
		sum = sum.Plus(&c.here)
		if !any && s.suffices(node, t, &sum) {
			cost.Band, any = c.band, true
		}
	}
	if s.admitted = admitted; !any {
		return cost, false
	}
	for _, c := range admitted {
		if c.slice && c.band <= cost.Band {
			surplus = surplus.Plus(&c.here)
		}
	}
	lacks := int64(t.Need.Milli - n.FreeMilli)
	wholes := int32(0)
	if !s.suffices(node, t, &surplus) {
		wholes = max(s.fewest(lacks-int64(surplus.Milli), cost.Band, false), 1)
	}
	count := wholes
	if cost.Wholes = wholes; wholes == 0 {
		count = max(s.fewest(lacks, cost.Band, true), 1)
		cost.Slices = count
	}
	for _, f := range [...]struct {
		of  func(*choice) int64
		sum *int64
	}{{func(c *choice) int64 { return c.lost }, &cost.Lost}, {func(c *choice) int64 { return int64(c.gives.Milli) }, &cost.Takes}} {
		for _, x := range s.least(int(count), cost.Band, wholes == 0, f.of) {
			*f.sum += x
		}
	}
	if ages := s.least(int(count), cost.Band, wholes == 0, func(c *choice) int64 { return c.age }); len(ages) > 0 {
		cost.Age = ages[len(ages)-1]
	}
	cost.Tie = t.Tie(node)
	return cost, true
}

// fewest is how many of the admitted choices it takes at least to leave so much compute.
func (s *Search) fewest(milli int64, band int64, slice bool) (n int32) {
	all := s.amounts[:0]
	for _, c := range s.admitted {
		if c.slice == slice && c.band <= band {
			all = append(all, int64(c.here.Milli))
		}
	}
	s.amounts = all
	slices.SortFunc(all, func(a, b int64) int { return cmp.Compare(b, a) })
	for _, x := range all {
		if milli <= 0 {
			break
		}
		milli -= x
		n++
	}
	return n
}

// least lists so many of the admitted choices by what is least of something.
func (s *Search) least(count int, band int64, slice bool, of func(*choice) int64) []int64 {
	all := s.amounts[:0]
	for _, c := range s.admitted {
		if c.slice == slice && c.band <= band {
			all = append(all, of(c))
		}
	}
	s.amounts = all
	slices.Sort(all)
	return all[:min(count, len(all))]
}
