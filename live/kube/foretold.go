package kube

import (
	"fmt"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/when"
	"github.com/headrace-dev/headrace/internal/learn"

	"github.com/headrace-dev/headrace/live/beliefs"
)

const (
	// toldEvery is how often it is taken down anew what is foretold of one that waits, and
	// toldAgainEvery of one that has run before: what the simulator learns from (docs/adr/0012).
	toldEvery, toldAgainEvery = moment.Hour, moment.Day
	// toldMost bounds what is taken down of one wait: the last four days of it.
	toldMost = 100
	// startsEvery is how often the world is told how true it was.
	startsEvery = 10 * moment.Minute
	// countsFrom is the wait from which on it counts.
	countsFrom = moment.Minute
	// cellsKept bounds the cells that are kept, each of some kilobytes at the most.
	cellsKept = 100
)

// foretold is the part of the books about how true foretold starts were.
type foretold struct {
	starts      learn.Starts
	visions     map[string]*vision // of those who wait, by group or pod
	startsTold  moment.Instant     // when the world was told last
	startsStale bool               // more is known than it was told
	keptStarts  int64              // waits that what was kept last rests on
}

// vision is what was foretold of one wait.
type vision struct {
	since moment.Instant
	told  []prophecy // the oldest first
}

// prophecy is what was foretold once: of which wait it is a part, and of whom.
type prophecy struct {
	at   moment.Instant
	cell when.Cell
}

// unitOf names what starts as one: a group, or a pod.
func unitOf(key string, p *pod) string {
	if p.seen.Group != "" {
		return "group " + p.seen.Group
	}
	return "pod " + key
}

// prophesy takes down what was foretold of one that waits.
func (b *books) prophesy(v *cluster.View, w *decision.Waiting) {
	if w.Played == nil {
		return
	}
	key, row, now := v.Pod(w.Pod).Spec.Name, v.Pod(w.Pod), b.instant()
	unit := unitOf(key, b.pods[key])
	vis := b.visions[unit]
	if vis == nil {
		vis = &vision{since: row.Arrived}
		if row.Ran > 0 {
			vis.since = now // it came to wait anew, lately
		}
		b.visions[unit] = vis
	}
	every := toldEvery
	if row.Ran > 0 {
		every = toldAgainEvery
	}
	if n := len(vis.told); n > 0 && now.Since(vis.told[n-1].at) < every {
		return
	}
	vis.told = append(vis.told, prophecy{at: now, cell: when.CellOf(v, row, now, w.Played.Likely)})
	vis.told = vis.told[max(0, len(vis.told)-toldMost):]
}

// cameTrue takes in that a pod starts, or the first one of its group: what was foretold was
// true, or not.
func (b *books) cameTrue(key string, p *pod) {
	unit := unitOf(key, p)
	vis, now := b.visions[unit], b.instant()
	if vis == nil {
		return
	}
	delete(b.visions, unit)
	if now.Since(vis.since) <= countsFrom {
		return
	}
	for i := range vis.told {
		t := &vis.told[i]
		b.starts.Over(float64(now.Since(t.at))/float64(t.cell.Base), now, t.cell.Own, t.cell.Any)
		b.startsStale = true
	}
}

// believeStarts tells the world now and then how true foretold starts were.
func (b *books) believeStarts() {
	now := b.instant()
	if !b.startsStale || b.startsTold != 0 && now.Since(b.startsTold) < startsEvery {
		return
	}
	b.startsStale, b.startsTold = false, now
	b.beliefs.Starts = b.starts.Table(now)
	b.tellBeliefs()
}

// keepStarts adds to what is kept how true foretold starts were.
func (b *books) keepStarts(out *beliefs.Beliefs) {
	for _, c := range b.starts.Cells(cellsKept) {
		one := beliefs.Cell{Key: c.Cell}
		for _, d := range c.Days {
			one.Days = append(one.Days, beliefs.Day{Day: d.Day, Grains: slices.Clone(d.Grains), Count: slices.Clone(d.Count)})
		}
		out.Starts = append(out.Starts, one)
	}
}

// rememberStarts brings it back.
func (b *books) rememberStarts(kept []beliefs.Cell) error {
	var cells []learn.CellWaits
	for i := range kept {
		c := learn.CellWaits{Cell: kept[i].Key}
		for _, d := range kept[i].Days {
			c.Days = append(c.Days, learn.DayWaits{Day: d.Day, Grains: d.Grains, Count: d.Count})
		}
		cells = append(cells, c)
	}
	starts, err := learn.StartsFrom(cells)
	if err != nil {
		return fmt.Errorf("foretold starts: %w", err)
	}
	b.starts, b.startsStale = starts, len(cells) > 0
	return nil
}
