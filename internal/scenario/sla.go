package scenario

import (
	"fmt"
	"math"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/world"
)

func slaFields() []string { return []string{"total", "per-run", "gives", "lends", "from-priority"} }

func slaStatements() []statement {
	return []statement{
		{"sla", form{usage: "NAME [total=TIME] [per-run=F] [gives=normal|first|last|never] [lends=no] [from-priority=N]", least: 1, most: 1, fields: slaFields()}, false, (*interp).defineSLA},
		{"remove-sla", form{usage: "NAME", least: 1, most: 1}, false, func(in *interp, c *call) ([]string, error) {
			return nil, in.apply(world.SLARemoved{Name: c.args[0]})
		}},
	}
}

// defineSLA makes an SLA class, or changes of one that there is what is said.
func (in *interp) defineSLA(c *call) ([]string, error) {
	name := c.args[0]
	if err := named("sla", name); err != nil {
		return nil, err
	}
	e := world.SLADefined{Name: name}
	if old := in.view().SLA(name); old != nil {
		e.SLATerms = old.SLATerms
	}
	r := c.reader("sla " + name)
	if r.text("total", "") == none {
		e.Total = 0
	} else {
		e.Total = r.span("total", e.Total)
	}
	e.PerRun = quantity.Milli(r.number("per-run", int64(e.PerRun), 0, world.MostPerRun))
	if names := cluster.GivingNames(); r.has("gives") {
		e.Gives = cluster.Giving(r.oneOf("gives", names[0], names))
	}
	if r.has("lends") {
		e.Keeps = r.oneOf("lends", "yes", []string{"yes", "no"}) == 1
	}
	switch {
	case r.text("from-priority", "") == none:
		e.ByPriority, e.From = false, 0
	case r.has("from-priority"):
		e.ByPriority, e.From = true, int32(r.number("from-priority", 0, math.MinInt32, math.MaxInt32))
	}
	if r.err != nil {
		return nil, r.err
	}
	return nil, in.apply(e)
}

// slaFacts are the classes as far as a new world has others.
func (in *interp) slaFacts() (out []world.Event) {
	all := in.view().SLAs()
	for _, s := range cluster.DefaultSLAs() {
		if !slices.ContainsFunc(all, func(t cluster.SLA) bool { return t.Name == s.Name }) {
			out = append(out, world.SLARemoved{Name: s.Name})
		}
	}
	for i := range all {
		out = append(out, world.SLADefined{Name: all[i].Name, SLATerms: all[i].SLATerms})
	}
	return out
}

// showSLAs prints the classes.
func (in *interp) showSLAs() []string {
	var rows [][]string
	for _, s := range in.view().SLAs() {
		row := []string{s.Name, spanOf(s.Total), "-", s.Gives.String(), "yes", "-"}
		if s.PerRun > 0 {
			row[2] = fmt.Sprint(int64(s.PerRun))
		}
		if s.Keeps || s.Gives == cluster.GivesNever {
			row[4] = "no"
		}
		if s.ByPriority {
			row[5] = fmt.Sprint(s.From)
		}
		rows = append(rows, row)
	}
	return table("sla|total|per run|gives way|lends|from priority", rows)
}
