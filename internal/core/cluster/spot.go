package cluster

import "fmt"

// Spot is a domain of any level, named: an island of a node, a node, or a row of
// the domain table. The zero value is everywhere.
type Spot struct {
	// Set says that it is one domain of the Level and not the whole cluster.
	Set    bool
	Level  Level
	Domain DomainID // from rack on
	Node   NodeID   // of a node or island
	Island int32
}

// Describe names the domain: "rack r7", "node n1", "island 1 of node n1".
func (s Spot) Describe(v *View) string {
	switch {
	case !s.Set:
		return "the cluster"
	case s.Level == LevelIsland:
		return fmt.Sprintf("island %d of node %s", s.Island, v.Node(s.Node).Spec.Name)
	case s.Level == LevelNode:
		return "node " + v.Node(s.Node).Spec.Name
	}
	return fmt.Sprintf("%v %s", s.Level, v.Domains.At(int32(s.Domain)).Name)
}

// Key is the same for a domain of the same name in every world.
func (s Spot) Key(v *View) uint64 {
	switch {
	case !s.Set:
		return 0
	case s.Level == LevelIsland:
		return v.Node(s.Node).Key + 1 + uint64(s.Island)
	case s.Level == LevelNode:
		return v.Node(s.Node).Key
	}
	return v.Domains.At(int32(s.Domain)).Key
}
