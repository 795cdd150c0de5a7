package scenario

import (
	"fmt"
	"math"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/world"
)

func groupStatements() []statement {
	return []statement{
		{"group", form{usage: "NAME min=N [queue=NAME] [hold=5m]", least: 1, most: 1, fields: []string{"min", "queue", "hold"}}, false, (*interp).addGroup},
		{"change-group", form{usage: "NAME min=N [hold=5m]", least: 1, most: 1, fields: []string{"min", "hold"}}, false, (*interp).changeGroup},
		{"remove-group", form{usage: "NAME", least: 1, most: 1}, false, func(in *interp, c *call) ([]string, error) {
			return nil, in.apply(world.GroupRemoved{Name: c.args[0]})
		}},
	}
}

func (in *interp) addGroup(c *call) ([]string, error) {
	name := c.args[0]
	if err := named("group", name); err != nil {
		return nil, err
	}
	r := c.reader("group " + name)
	e := world.GroupAdded{Name: name, Minimum: int32(r.number("min", 1, 1, math.MaxInt32)), Queue: r.name("queue"), Hold: r.span("hold", 0)}
	if r.err != nil {
		return nil, r.err
	}
	if _, known := in.queue(e.Queue); e.Queue != "" && !known {
		return nil, fmt.Errorf("group %s: field queue: value %q: no such queue%s", name, e.Queue, suggestAny(e.Queue, in.queueNames()))
	}
	return nil, in.apply(e)
}

func (in *interp) changeGroup(c *call) ([]string, error) {
	r := c.reader("change-group " + c.args[0])
	e := world.GroupChanged{Name: c.args[0], Minimum: int32(r.number("min", 1, 1, math.MaxInt32)), Hold: r.span("hold", 0)}
	if r.err != nil {
		return nil, r.err
	}
	return nil, in.apply(e)
}

func (in *interp) showGroups() []string {
	v := in.view()
	var rows [][]string
	for i := range v.Groups.Len() {
		g := v.Groups.At(int32(i))
		switch {
		case g.Known:
			state := "waits"
			if g.Whole() {
				state = "started"
			} else if g.Stuck() {
				state = fmt.Sprintf("broken, until %v", g.Deadline)
			} else if g.Broken() {
				state = "broken"
			}
			rows = append(rows, []string{g.Name, fmt.Sprint(g.Minimum), fmt.Sprint(g.Members), fmt.Sprint(g.Placed), in.queueName(g.Queue), state})
		case g.Members > 0:
			rows = append(rows, []string{g.Name, "-", fmt.Sprint(g.Members), fmt.Sprint(g.Placed), "-", "not there yet"})
		}
	}
	slices.SortFunc(rows, func(a, b []string) int { return compareNames(a[0], b[0]) })
	return table("group|min|members|placed|queue|state", rows)
}

// allOrNone holds a plan against the minimum of every group it places members of.
// A policy that decides whole rounds knows no groups.
func (in *interp) allOrNone(s *cluster.Snapshot, plan *decision.Plan) error {
	if in.policy.Round != nil {
		return nil
	}
	placed := make(map[cluster.GroupID]int32)
	for i := range plan.Decisions {
		if d := &plan.Decisions[i]; d.Action == cluster.ActionBind {
			placed[s.Pod(d.Pod).Spec.Group]++
		}
	}
	for id, n := range placed { // order: one that is broken is enough
		if id == cluster.None {
			continue
		}
		if g := s.Group(id); !g.Known || g.Placed+n < g.Minimum {
			return violated("group %s: the plan leaves it with %d of %d members", g.Name, g.Placed+n, g.Minimum)
		}
	}
	return nil
}
