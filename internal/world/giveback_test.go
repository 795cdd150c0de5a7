package world_test

import (
	"fmt"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/world"
)

// Groups that each hold what others need come out of it: once their time is over the one
// whose members came first is whole with the room of the others, and those back off.
func TestGroupsInEachOthersWayComeOutOfIt(t *testing.T) {
	for seed := range int64(40) {
		from := chance.New(seed)
		k := &town{t: t, w: world.New()}
		k.must(world.DomainAdded{Name: "rack", Level: cluster.LevelRack})
		groups := 2 + int(from.Below(3))
		for i := range groups { // a node of four cards for each group of four
			k.must(nodeKind(1, fmt.Sprintf("n%d", i)))
			k.must(world.GroupAdded{Name: fmt.Sprintf("g%d", i), Minimum: 4, Hold: moment.Minute})
		}
		first := int(from.Below(int64(groups)))
		for i := range groups {
			i := (first + i) % groups
			k.at = k.at.Add(moment.Second)
			for m := range 4 {
				k.must(world.PodAdded{Name: fmt.Sprintf("g%d-%d", i, m), Group: fmt.Sprintf("g%d", i), Request: requests[2]})
			}
		}
		policy, memo := engine.Headrace(), engine.Memo{}
		cycle := func() (binds, evictions int) {
			plan := engine.Decide(k.w.Snapshot(), decision.Cycle{Number: uint64(k.at), Now: k.at, Seed: seed}, policy, &memo)
			for _, bundle := range plan.Bundles() {
				k.must(world.Acceptance(bundle))
				for _, d := range bundle {
					name := k.w.View().Pod(d.Pod).Spec.Name
					if d.Action == cluster.ActionEvict {
						evictions++
						k.must(world.Evicted{Name: name})
					} else {
						binds++
						k.must(world.Bound{Name: name})
					}
				}
			}
			k.audit()
			return binds, evictions
		}
		if binds, _ := cycle(); binds != 4*groups {
			t.Fatalf("seed %d: %d binds, want all of %d groups", seed, binds, groups)
		}
		for i := range groups { // now each needs one more than there is
			k.must(world.GroupChanged{Name: fmt.Sprintf("g%d", i), Minimum: 5, Hold: moment.Minute})
			k.must(world.PodAdded{Name: fmt.Sprintf("g%d-4", i), Group: fmt.Sprintf("g%d", i), Request: requests[2]})
		}
		k.at = k.at.Add(59 * moment.Second)
		if binds, evictions := cycle(); binds+evictions > 0 {
			t.Fatalf("seed %d: %d binds and %d evictions before the time is over", seed, binds, evictions)
		}
		k.at = k.at.Add(moment.Second)
		if _, evictions := cycle(); evictions != 4*(groups-1) {
			t.Fatalf("seed %d: %d pods give their room back, want those of all groups but one", seed, evictions)
		}
		k.at = k.at.Add(moment.Second)
		if binds, evictions := cycle(); binds != 1 || evictions != 0 {
			t.Fatalf("seed %d: %d binds and %d evictions, want what the first lacks", seed, binds, evictions)
		}
		id, _ := k.w.Group(fmt.Sprintf("g%d", first))
		if g := k.w.View().Group(id); !g.Whole() {
			t.Fatalf("seed %d: group %s, which came first, has %d of %d", seed, g.Name, g.Placed, g.Minimum)
		}
		for i := range groups {
			id, _ := k.w.Group(fmt.Sprintf("g%d", i))
			if r := k.w.View().Group(id).GaveBack; (r.Count == 1) != (i != first) || i != first && r.Until < k.at.Add(30*moment.Second) {
				t.Fatalf("seed %d: group g%d gave back %+v; g%d came first", seed, i, r, first)
			}
		}
	}
}
