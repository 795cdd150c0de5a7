package scenario

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/world"
)

// groupFields say what a group is, apart from its queue.
func groupFields() []string {
	return []string{"min", "wished", "parent", "groups", "topology", "comm", "hold"}
}

func groupStatements() []statement {
	return []statement{
		{"group", form{usage: "NAME min=N [queue=NAME] …", least: 1, most: 1, fields: append(groupFields(), "queue", "job")}, false, (*interp).addGroup},
		{"change-group", form{usage: "NAME [min=N] …", least: 1, most: 1, fields: groupFields()}, false, (*interp).changeGroup},
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
	e := world.GroupAdded{
		Name: name, Minimum: int32(r.number("min", least(r), 0, math.MaxInt32)), Queue: r.name("queue"), Job: r.name("job"), Hold: r.span("hold", 0), Parent: r.name("parent"),
		Wished: int32(r.number("wished", 0, 0, math.MaxInt32)), Groups: r.groups(0), Topology: r.topology(nil), Comm: cluster.Pattern(r.oneOf("comm", "none", patterns())),
	}
	if r.err != nil {
		return nil, r.err
	}
	if _, known := in.queue(e.Queue); e.Queue != "" && !known {
		return nil, fmt.Errorf("group %s: field queue: value %q: no such queue%s", name, e.Queue, suggestAny(e.Queue, in.queueNames()))
	}
	return nil, in.apply(e)
}

// least is the minimum that is meant where none is said: groups of groups need none.
func least(r *reader) int64 {
	if r.has("groups") {
		return 0
	}
	return 1
}

func patterns() []string { return []string{"none", "ring", "tree"} }

// groups reads how many sub-groups start with a group: a number, or all.
func (r *reader) groups(usual int32) int32 {
	if r.text("groups", "") == "all" {
		return cluster.AllGroups
	}
	return int32(r.number("groups", int64(usual), 1, math.MaxInt32))
}

// topology reads "zone,rack:preferred": levels to share, required where it is not
// said.
func (r *reader) topology(usual []cluster.TopologyWish) []cluster.TopologyWish {
	if !r.has("topology") {
		return usual
	}
	var out []cluster.TopologyWish
	for _, part := range r.list("topology") {
		name, how, said := strings.Cut(part, ":")
		level := slices.Index(levels(), name)
		if level < 0 || said && how != "required" && how != "preferred" {
			r.fail("topology", part, "LEVEL, LEVEL:required or LEVEL:preferred, the level one of "+strings.Join(levels(), ", "))
			return nil
		}
		out = append(out, cluster.TopologyWish{Level: cluster.Level(level), Required: how != "preferred"})
	}
	return out
}

// changeGroup changes the fields that are said; what is not said stays.
func (in *interp) changeGroup(c *call) ([]string, error) {
	name := c.args[0]
	id, known := in.world.Group(name)
	if !known {
		return nil, fmt.Errorf("group %q: no such group", name)
	}
	v := in.view()
	g := *v.Group(id)
	parent := ""
	if g.Parent != cluster.None {
		parent = v.Group(g.Parent).Name
	}
	r := c.reader("change-group " + name)
	e := world.GroupChanged{
		Name: name, Minimum: int32(r.number("min", int64(g.Minimum), 0, math.MaxInt32)), Hold: r.span("hold", g.Hold), Parent: parent,
		Wished: int32(r.number("wished", int64(g.Wished), 0, math.MaxInt32)), Groups: r.groups(g.Groups), Topology: r.topology(g.Topology),
		Comm: cluster.Pattern(r.oneOf("comm", g.Comm.String(), patterns())),
	}
	if r.has("parent") {
		e.Parent = r.name("parent")
	}
	if r.err != nil {
		return nil, r.err
	}
	return nil, in.apply(e)
}

// showGroups prints the trees of groups: children below their parents, with what is
// below them counted in.
func (in *interp) showGroups() []string {
	v := in.view()
	var roots []cluster.GroupID
	for i := range v.Groups.Len() {
		if g := v.Groups.At(int32(i)); g.Parent == cluster.None && (g.Known || g.Members+g.Children > 0) {
			roots = append(roots, cluster.GroupID(i))
		}
	}
	return table("group|min|members|placed|queue|state", in.groupRows(nil, roots, ""))
}

func (in *interp) groupRows(rows [][]string, ids []cluster.GroupID, indent string) [][]string {
	v := in.view()
	slices.SortFunc(ids, func(a, b cluster.GroupID) int { return compareNames(v.Group(a).Name, v.Group(b).Name) })
	for _, id := range ids {
		g := v.Group(id)
		members := int32(0)
		for below := range v.Tree(id) {
			members += v.Group(below).Members
		}
		row := []string{indent + g.Name, leastText(g), fmt.Sprint(members), fmt.Sprint(g.TreePlaced), in.queueName(g.Queue), groupState(g, in.now)}
		if !g.Known {
			row[1], row[4] = "-", "-"
		}
		rows = in.groupRows(append(rows, row), slices.Collect(v.Children(id)), indent+"  ")
	}
	return rows
}

// leastText is what a group needs: pods, groups, or both.
func leastText(g *cluster.Group) string {
	groups := fmt.Sprintf("%d groups", g.NeedsGroups())
	if g.NeedsGroups() == 1 {
		groups = "1 group"
	}
	switch {
	case g.NeedsGroups() == 0:
		return fmt.Sprint(g.Minimum)
	case g.Minimum == 0:
		return groups
	default:
		return fmt.Sprintf("%d, %s", g.Minimum, groups)
	}
}

func groupState(g *cluster.Group, now moment.Instant) string {
	switch {
	case !g.Known:
		return "not there yet"
	case g.Whole():
		return "started"
	case g.Stuck():
		return fmt.Sprintf("broken, until %v", g.Deadline)
	case g.Broken():
		return "broken"
	case g.GaveBack.Until > now:
		return fmt.Sprintf("waits, not before %v", g.GaveBack.Until)
	}
	return "waits"
}

// allOrNone holds a plan against the minimum of every group it places members of,
// and of those above it. A policy that decides whole rounds knows no groups.
func (in *interp) allOrNone(s *cluster.Snapshot, plan *decision.Plan) error {
	if in.policy.Round != nil {
		return nil
	}
	after := make([]struct{ placed, whole int32 }, s.Groups.Len())
	for i := range s.Groups.Len() {
		after[i].placed = s.Group(cluster.GroupID(i)).Placed
	}
	touched := make([]bool, s.Groups.Len())
	for i := range plan.Decisions {
		if d := &plan.Decisions[i]; d.Action == cluster.ActionBind && s.Pod(d.Pod).Spec.Group != cluster.None {
			after[s.Pod(d.Pod).Spec.Group].placed++
			touched[s.Pod(d.Pod).Spec.Group] = true
		}
	}
	for i := range touched {
		for id := cluster.GroupID(i); touched[i] && id != cluster.None; id = s.Group(id).Parent {
			if g := s.Group(id); !wholeWith(s, id, func(g cluster.GroupID) int32 { return after[g].placed }) {
				return violated("group %s: the plan leaves it with %d of %d members, or with too few sub-groups", g.Name, after[id].placed, g.Minimum)
			}
		}
	}
	return in.together(s, plan)
}

// wholeWith says whether a group has its minimum with so many pods placed.
func wholeWith(s *cluster.Snapshot, id cluster.GroupID, placed func(cluster.GroupID) int32) bool {
	g, whole := s.Group(id), int32(0)
	for c := range s.Children(id) {
		if wholeWith(s, c, placed) {
			whole++
		}
	}
	return g.Known && placed(id) >= g.Minimum && whole >= g.NeedsGroups()
}

// together holds a plan against the domains that groups must share: all members of
// a tree that the plan starts from nothing are in one.
func (in *interp) together(s *cluster.Snapshot, plan *decision.Plan) error {
	type share struct {
		group cluster.GroupID
		level cluster.Level
	}
	first := make(map[share]string)
	for i := range plan.Decisions {
		d := &plan.Decisions[i]
		if d.Action != cluster.ActionBind {
			continue
		}
		for id := s.Pod(d.Pod).Spec.Group; id != cluster.None; id = s.Group(id).Parent {
			for _, wish := range s.Group(id).Topology {
				if !wish.Required || s.Group(id).TreePlaced > 0 {
					continue
				}
				where := domainAt(&s.View, &d.Place, wish.Level)
				if before, seen := first[share{id, wish.Level}]; where == "" || seen && before != where {
					return violated("group %s: the plan places members in %q and %q, they must share one %v", s.Group(id).Name, before, where, wish.Level)
				}
				first[share{id, wish.Level}] = where
			}
		}
	}
	return nil
}

// domainAt names the domain of a level that a placement is in; empty where it is in
// none, or in several.
func domainAt(v *cluster.View, place *cluster.Placement, level cluster.Level) string {
	n := v.Node(place.Node)
	switch level {
	case cluster.LevelNode:
		return n.Spec.Name
	case cluster.LevelIsland:
		island := int32(cluster.None)
		for i, g := range place.Grants {
			own := v.Device(g.Device).Spec.Island
			if i > 0 && own != island {
				return ""
			}
			island = own
		}
		if island == cluster.None {
			return ""
		}
		return fmt.Sprintf("%s, island %d", n.Spec.Name, island)
	}
	for id := n.Spec.Domain; id != cluster.None; id = v.Domains.At(int32(id)).Parent {
		if d := v.Domains.At(int32(id)); d.Level == level {
			return d.Name
		}
	}
	return ""
}
