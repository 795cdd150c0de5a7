package web

import (
	"cmp"
	"slices"
	"strconv"
)

// maxReasons bounds the table of reasons; what is rarer is summed up in a last
// row.
const maxReasons = 40

// reasonTable counts why pods failed or still wait: a row per reason, a column
// per policy.
type reasonTable struct {
	Policies []string
	Rows     []reasonRow
}

type reasonRow struct {
	Reason string
	Counts []string // parallel to Policies, a dash for none
	counts []int
	total  int
}

func reasonsOf(s study) reasonTable {
	var t reasonTable
	row := map[string]int{}
	for _, g := range s.groups {
		d, _ := g.detail()
		if d == nil {
			continue
		}
		at := len(t.Policies)
		t.Policies = append(t.Policies, g.policy)
		for _, rc := range d.Reasons {
			i, seen := row[rc.Reason]
			if !seen {
				i = len(t.Rows)
				row[rc.Reason] = i
				t.Rows = append(t.Rows, reasonRow{Reason: rc.Reason, counts: make([]int, len(s.groups))})
			}
			t.Rows[i].counts[at] += rc.Count
			t.Rows[i].total += rc.Count
		}
	}
	slices.SortFunc(t.Rows, func(a, b reasonRow) int {
		return cmp.Or(cmp.Compare(b.total, a.total), cmp.Compare(a.Reason, b.Reason))
	})
	t.fold()
	for i := range t.Rows {
		t.Rows[i].print(len(t.Policies))
	}
	return t
}

// fold sums the rows past maxReasons up in one.
func (t *reasonTable) fold() {
	if len(t.Rows) <= maxReasons {
		return
	}
	rest := t.Rows[maxReasons-1:]
	other := reasonRow{
		Reason: strconv.Itoa(len(rest)) + " rarer reasons",
		counts: make([]int, len(rest[0].counts)),
	}
	for _, r := range rest {
		for i, n := range r.counts {
			other.counts[i] += n
		}
	}
	t.Rows = append(t.Rows[:maxReasons-1], other)
}

func (r *reasonRow) print(policies int) {
	for _, n := range r.counts[:policies] {
		text := "–"
		if n > 0 {
			text = strconv.Itoa(n)
		}
		r.Counts = append(r.Counts, text)
	}
}
