package engine

import "github.com/headrace-dev/headrace/internal/core/cluster"

// Headrace is our policy.
func Headrace() *Policy {
	return &Policy{Name: "headrace", Score: func(v *cluster.View, shape cluster.ShapeID, node cluster.NodeID) int64 {
		return -int64(v.Node(node).FreeMilli)
	}}
}
