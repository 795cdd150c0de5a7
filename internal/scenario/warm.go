package scenario

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/core/warm"
	"github.com/headrace-dev/headrace/internal/world"
)

func warmStatements() []statement {
	return []statement{
		{"artifact", form{usage: "NAME image|weights size=10GiB [pinned] [by-pods]", least: 2, most: 2, fields: []string{"size"}, flags: []string{"pinned", "by-pods"}}, false, (*interp).addArtifact},
		{"cache", form{usage: "NODE size=256GiB [image-rate=128MiB] [weights-rate=256MiB]", least: 1, most: 1, fields: []string{"size", "image-rate", "weights-rate"}}, false, (*interp).setCache},
		{"cached", form{usage: "NODE ARTIFACT…", least: 2, most: maxCount}, false, func(in *interp, c *call) ([]string, error) {
			return nil, in.apply(world.NodeCached{Node: c.args[0], Has: c.args[1:]})
		}},
		{"dropped", form{usage: "NODE ARTIFACT…", least: 2, most: maxCount}, false, func(in *interp, c *call) ([]string, error) {
			return nil, in.apply(world.NodeCached{Node: c.args[0], Dropped: c.args[1:]})
		}},
		{"fetched", form{usage: "NODE ARTIFACT", least: 2, most: 2}, false, func(in *interp, c *call) ([]string, error) {
			return nil, in.apply(world.PrefetchDone{Node: c.args[0], Artifact: c.args[1]})
		}},
		{"not-fetched", form{usage: "NODE ARTIFACT", least: 2, most: 2}, false, func(in *interp, c *call) ([]string, error) {
			return nil, in.apply(world.PrefetchFailed{Node: c.args[0], Artifact: c.args[1]})
		}},
		{"arrivals", form{usage: "POD per-hour=N", least: 1, most: 1, fields: []string{"per-hour"}}, false, (*interp).expectArrivals},
	}
}

// Rates of a node that says none.
const (
	usualImageRate   = 128 * quantity.MiB
	usualWeightsRate = 256 * quantity.MiB
)

func (in *interp) addArtifact(c *call) ([]string, error) {
	name := c.args[0]
	if err := named("artifact", name); err != nil {
		return nil, err
	}
	sorts := []string{"image", "weights"}
	sort := slices.Index(sorts, c.args[1])
	if sort < 0 {
		return nil, fmt.Errorf("artifact %s: sort %q: want one of %s", name, c.args[1], strings.Join(sorts, ", "))
	}
	r := c.reader("artifact " + name)
	e := world.ArtifactKnown{Name: name, Sort: cluster.ArtifactSort(sort), Size: r.bytes("size", 0), Pinned: r.has("pinned"), ByPods: r.has("by-pods")}
	if r.err != nil {
		return nil, r.err
	}
	return nil, in.apply(e)
}

// setCache says what a node keeps for pods to come.
func (in *interp) setCache(c *call) ([]string, error) {
	if _, err := in.node(c.args[0]); err != nil {
		return nil, err
	}
	r := c.reader("cache " + c.args[0])
	e := world.CacheKnown{Node: c.args[0], Disk: r.bytes("size", 0), Image: r.bytes("image-rate", usualImageRate), Weights: r.bytes("weights-rate", usualWeightsRate)}
	if r.err != nil {
		return nil, r.err
	}
	return nil, in.apply(e)
}

// expectArrivals says how often pods like one come, as if that had been learned.
func (in *interp) expectArrivals(c *call) ([]string, error) {
	id, err := in.pod(c.args[0])
	if err != nil {
		return nil, err
	}
	r := c.reader("arrivals " + c.args[0])
	rate := r.number("per-hour", 1, 0, math.MaxInt32)
	spec := in.view().Pod(id).Spec
	switch {
	case r.err != nil:
		return nil, r.err
	case spec.Kind == 0 || len(spec.Artifacts) == 0:
		return nil, fmt.Errorf("arrivals %s: it has no kind, or needs nothing: want a pod with kind= and needs=", c.args[0])
	}
	next := cluster.Beliefs{}
	if b := in.view().Beliefs; b != nil {
		next = *b
	}
	var rows []cluster.Arrival
	if next.Arrivals != nil {
		rows = slices.DeleteFunc(slices.Clone(next.Arrivals.Rows), func(a cluster.Arrival) bool { return a.Kind == spec.Kind })
	}
	rows = append(rows, cluster.Arrival{Kind: spec.Kind, Artifacts: spec.Artifacts, Shape: spec.Shape, PerHour: quantity.Milli(1000 * rate)})
	slices.SortStableFunc(rows, func(a, b cluster.Arrival) int { return int(b.PerHour - a.PerHour) })
	next.Arrivals = &cluster.Arrivals{Rows: rows}
	next.Version++
	return nil, in.apply(world.Learned{Beliefs: &next})
}

// warmly returns the policy with warm starts as its words say.
func (in *interp) warmly(words []string) error {
	if len(words) == 0 {
		return nil
	}
	rules := warm.Default()
	if slices.Contains(words, "dense") {
		rules = warm.Dense()
	}
	rules.Beside, rules.First, rules.Ahead = false, false, false
	second := rules.Second
	rules.Second = 0
	for _, word := range words {
		switch word {
		case "off":
			in.policy = in.policy.Warming(nil)
			return nil
		case "place":
			rules.Second = second
		case "beside":
			rules.Beside = true
		case "first":
			rules.Beside, rules.First = true, true
		case "ahead":
			rules.Ahead = true
		case "spare":
			rules.Drops = false
		case "dense":
		default:
			return fmt.Errorf("policy %s: field warm: value %q: want off, or some of place, beside, first, ahead, spare, dense with commas", in.policy.Name, word)
		}
	}
	in.policy = in.policy.Warming(&rules)
	return nil
}

// cacheFacts are what nodes keep, as a cluster tells of it, and what is on its way by
// decisions that were written down.
func (in *interp) cacheFacts() []world.Event {
	v := in.view()
	name := func(id cluster.ArtifactID) string { return v.Artifact(id).Name }
	var out []world.Event
	for _, id := range in.liveNodes() {
		n := v.Node(id)
		if n.Cache == nil {
			continue
		}
		c := n.Cache
		out = append(out, world.CacheKnown{Node: n.Spec.Name, Disk: c.Disk, Image: c.Rates[cluster.ArtifactImage], Weights: c.Rates[cluster.ArtifactWeights]})
		e := world.NodeCached{Node: n.Spec.Name}
		for i := range c.Held {
			e.Has = append(e.Has, name(c.Held[i].Artifact))
		}
		out = append(out, e)
		for i := range c.Coming {
			f := &c.Coming[i]
			out = append(out, world.PrefetchRecalled{Node: n.Spec.Name, Artifact: name(f.Artifact), ID: f.ID, Since: f.Since, Urgent: f.Urgent})
		}
	}
	return out
}

func (in *interp) artifactFacts() []world.Event {
	v := in.view()
	var out []world.Event
	for i := range v.Artifacts.Len() {
		a := v.Artifact(cluster.ArtifactID(i))
		out = append(out, world.ArtifactKnown{Name: a.Name, Sort: a.Sort, Size: a.Size, Pinned: a.Pinned, ByPods: a.ByPods})
	}
	return out
}

func (in *interp) showCaches() []string {
	v := in.view()
	list := func(ids []cluster.ArtifactID) string {
		var names []string
		for _, id := range ids {
			names = append(names, v.Artifact(id).Name)
		}
		if names == nil {
			return "-"
		}
		return strings.Join(names, " ")
	}
	var rows [][]string
	for _, id := range in.liveNodes() {
		n := v.Node(id)
		if n.Cache == nil {
			continue
		}
		var held, coming []cluster.ArtifactID
		for i := range n.Cache.Held {
			held = append(held, n.Cache.Held[i].Artifact)
		}
		for i := range n.Cache.Coming {
			coming = append(coming, n.Cache.Coming[i].Artifact)
		}
		rows = append(rows, []string{n.Spec.Name, fmt.Sprintf("%v/%v", size(int64(n.Cache.Disk-n.Cache.Taken)), size(int64(n.Cache.Disk))), list(held), list(coming)})
	}
	return table("node|free|held, last used last|coming", rows)
}
