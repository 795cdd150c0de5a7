package sim

import (
	"math"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/when"
	"github.com/headrace-dev/headrace/internal/meter"
)

// The occasions on which a start is foretold.
const (
	onSubmission = iota
	everyHour
	afterEviction // of jobs that have run before, every day
	occasions
)

var occasionNames = [occasions]string{"on submission", "every hour", "after an eviction"} // const: names of the occasions

// tally counts how true foretold starts were, by occasion and length of the wait
// foretold.
type tally struct {
	counts [occasions][]hits
	weeks  []hits // of those before a first start
}

// hits are of forecasts that are told of together.
type hits struct {
	all, held, earlier, never, played int
	errors, shares, waits, widths     []float32 // seconds, and parts of the true wait
	playedErrors                      []float32
}

// add books a forecast that a start has come of.
func (t *tally) add(p *prophecy, again bool, start moment.Instant) {
	occasion := everyHour
	switch {
	case again:
		occasion = afterEviction
	case p.first:
		occasion = onSubmission
	}
	if t.counts[occasion] == nil {
		t.counts[occasion] = make([]hits, len(when.Classes())+2)
	}
	t.counts[occasion][p.cell.Class].add(p, start)
	if !again {
		week := int(p.at / moment.Instant(7*moment.Day))
		for len(t.weeks) <= week {
			t.weeks = append(t.weeks, hits{})
		}
		t.weeks[week].all++
		if holds(&p.told.Window, start) {
			t.weeks[week].held++
		}
	}
}

func holds(w *decision.Window, start moment.Instant) bool { return w.Low <= start && start <= w.High }

func (h *hits) add(p *prophecy, start moment.Instant) {
	h.all++
	w, wait := p.told.Window, seconds(start.Since(p.at))
	switch {
	case holds(&w, start):
		h.held++
	case start < w.Low:
		h.earlier++
	}
	if holds(&p.told.Played, start) {
		h.played++
	}
	h.waits = append(h.waits, float32(wait))
	if p.told.Played.Likely == moment.Never {
		h.never++
	} else {
		h.playedErrors = append(h.playedErrors, float32(math.Abs(seconds(p.told.Played.Likely.Since(start)))))
	}
	if w.Likely != moment.Never {
		off := math.Abs(seconds(w.Likely.Since(start)))
		h.errors = append(h.errors, float32(off))
		h.shares = append(h.shares, float32(100*off/max(wait, 1)))
	}
	if w.High != moment.Never {
		h.widths = append(h.widths, float32(seconds(w.High.Since(w.Low))))
	}
}

// merge adds what others counted.
func (h *hits) merge(o *hits) {
	h.all, h.held, h.earlier, h.never, h.played = h.all+o.all, h.held+o.held, h.earlier+o.earlier, h.never+o.never, h.played+o.played
	h.errors, h.shares, h.waits = append(h.errors, o.errors...), append(h.shares, o.shares...), append(h.waits, o.waits...)
	h.widths, h.playedErrors = append(h.widths, o.widths...), append(h.playedErrors, o.playedErrors...)
}

// row is what is told of forecasts.
func (h *hits) row(occasion, foretold string) meter.StartTold {
	percent := func(part int) float64 { return 100 * float64(part) / float64(h.all) }
	half := func(all []float32) float64 {
		slices.Sort(all)
		return float64(quantile(all, 50))
	}
	return meter.StartTold{
		When: occasion, Foretold: foretold, Forecasts: h.all, HeldPct: percent(h.held), EarlierPct: percent(h.earlier),
		LaterPct: percent(h.all - h.held - h.earlier), NeverPct: percent(h.never), ErrorP50S: half(h.errors), ErrorP50Pct: half(h.shares),
		WaitP50S: half(h.waits), WidthP50S: half(h.widths), PlayedHeldPct: percent(h.played), PlayedErrorS: half(h.playedErrors),
	}
}

// report fills in how true foretold starts were.
func (s *seer) report(res *meter.Result) {
	var first hits
	for occasion, classes := range s.tally.counts {
		var all hits
		rows := []meter.StartTold{{}}
		for class := range classes {
			if h := &classes[class]; h.all > 0 {
				rows = append(rows, h.row(occasionNames[occasion], className(class)))
				all.merge(h)
			}
		}
		if all.all == 0 {
			continue
		}
		rows[0] = all.row(occasionNames[occasion], "all")
		res.Starts = append(res.Starts, rows...)
		if occasion != afterEviction {
			first.all, first.held = first.all+all.all, first.held+all.held
		}
	}
	if first.all > 0 {
		res.StartsHeldPct = percent(float64(first.held), float64(first.all))
	}
	for i := range s.tally.weeks {
		held := 0.0
		if h := &s.tally.weeks[i]; h.all > 0 {
			held = math.Round(1000*float64(h.held)/float64(h.all)) / 10
		}
		res.StartsWeek = append(res.StartsWeek, s.tally.weeks[i].all)
		res.StartsWeekPct = append(res.StartsWeekPct, held)
	}
}

// className names a class of foretold waits.
func className(class int) string {
	bounds := when.Classes()
	switch {
	case class < len(bounds):
		return "up to " + bounds[class].String()
	case class == len(bounds):
		return "more"
	}
	return "unknown"
}
