package learn

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
)

// observeEvery takes in arrivals of a kind at even distances.
func observeEvery(a *Arrivals, kind cluster.Symbol, from, to moment.Instant, every moment.Span) {
	for at := from; at < to; at = at.Add(every) {
		a.Observe(at, kind, []cluster.ArtifactID{cluster.ArtifactID(kind)}, 0)
	}
}

// What comes four times an hour is expected four times an hour, from the first hour on.
func TestArrivalsFindARate(t *testing.T) {
	for _, hours := range []int64{1, 6, 48} {
		var a Arrivals
		end := moment.Instant(hours * int64(moment.Hour))
		observeEvery(&a, 1, 0, end, 15*moment.Minute)
		a.Observe(end, 0, nil, 0)
		rows := a.Table().Rows
		if len(rows) != 1 || rows[0].PerHour < 3990 || rows[0].PerHour > 4010 {
			t.Errorf("after %d hours at 4 an hour: %+v, want about 4000 thousandths", hours, rows)
		}
	}
}

// Six hours later an arrival counts half.
func TestArrivalsForget(t *testing.T) {
	var a Arrivals
	day := moment.Instant(24 * moment.Hour)
	observeEvery(&a, 1, 0, day, 10*moment.Minute)
	observeEvery(&a, 2, day, day.Add(6*moment.Hour), 10*moment.Minute)
	a.Observe(day.Add(6*moment.Hour), 0, nil, 0)
	rows := a.Table().Rows
	if len(rows) != 2 {
		t.Fatalf("rows %+v, want two kinds", rows)
	}
	// Of the second kind a half of all weight, and the first the other half less a day.
	if rows[0].Kind != 2 || rows[0].PerHour < 3000 || rows[0].PerHour > 3300 || rows[1].PerHour < 2700 || rows[1].PerHour > 3000 {
		t.Errorf("rows %+v, want kind 2 at about 3100 and kind 1 at about 2900 thousandths", rows)
	}
}

// A table says nothing before an epoch has ended, and nothing of what needs nothing.
func TestArrivalsBegin(t *testing.T) {
	var a Arrivals
	if a.Observe(5, 1, []cluster.ArtifactID{0}, 0) || len(a.Table().Rows) != 0 {
		t.Errorf("within the first epoch: %+v, want nothing", a.Table().Rows)
	}
	if !a.Observe(moment.Instant(arrivalEpoch), 2, nil, 0) {
		t.Error("the first epoch has ended, and Observe does not say so")
	}
	if rows := a.Table().Rows; len(rows) != 1 || rows[0].Kind != 1 {
		t.Errorf("rows %+v, want the kind that needs something", rows)
	}
}

// What is kept and brought back says the same, and goes on the same way; what no Arrivals
// can have come to is refused.
func TestArrivalsAreBroughtBack(t *testing.T) {
	var a Arrivals
	day := moment.Instant(24 * moment.Hour)
	observeEvery(&a, 1, 0, day, 10*moment.Minute)
	observeEvery(&a, 2, 0, day, moment.Hour)
	b, err := ArrivalsFrom(a.Kinds(10))
	if err != nil {
		t.Fatal(err)
	}
	for _, both := range []*Arrivals{&a, &b} {
		observeEvery(both, 3, day, day.Add(moment.Hour), 5*moment.Minute)
	}
	if diff := cmp.Diff(a.Table(), b.Table()); diff != "" || len(b.Table().Rows) != 3 {
		t.Errorf("brought back, - as it was, + as it came back:\n%s", diff)
	}
	if most := a.Kinds(1).Of; len(most) != 1 || most[0].Kind != 1 {
		t.Errorf("the most frequent: %+v, want kind 1", most)
	}
	good := KindArrivals{Kind: 1, Count: 5, Artifacts: []cluster.ArtifactID{0}}
	for name, bad := range map[string]Kinds{
		"epoch":     {Epoch: -1},
		"epochs":    {Epochs: 1 << 40},
		"twice":     {Of: []KindArrivals{good, good}},
		"no kind":   {Of: []KindArrivals{{Count: 5, Artifacts: []cluster.ArtifactID{0}}}},
		"nothing":   {Of: []KindArrivals{{Kind: 1, Count: 5}}},
		"too often": {Of: []KindArrivals{{Kind: 1, Count: 1 << 50, Artifacts: []cluster.ArtifactID{0}}}},
	} {
		if _, err := ArrivalsFrom(bad); err == nil {
			t.Errorf("%s: %+v is not refused", name, bad)
		}
	}
}
