package decision

import (
	"fmt"
	"strings"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
)

// Fetch adds to a plan what a transaction decided to fetch.
func (p *Plan) Fetch(t *cluster.Txn, explain Explanation) {
	base := t.Base()
	for _, f := range t.Prefetches() {
		key, node := base.Artifact(f.Artifact).Key, base.Node(f.Node)
		p.Decisions = append(p.Decisions, Decision{
			ID:     chance.Hash(p.Cycle.Number, key, node.Key, uint64(cluster.ActionPrefetch)),
			Action: cluster.ActionPrefetch, Pod: cluster.None, Subject: key, Row: cluster.Ref{ID: cluster.None},
			Place: cluster.Nowhere(), Host: cluster.Ref{ID: int32(f.Node), Generation: node.Generation}, RelyOn: node.State,
			Deadline: moment.Never, Prefetch: &f, Because: explain,
		})
	}
}

func prefetchDigest(v *cluster.View, f *cluster.Prefetch) uint64 {
	h := chance.Hash(v.Node(f.Node).Key, v.Artifact(f.Artifact).Key)
	for _, id := range f.Drops {
		h = chance.Fold(h, v.Artifact(id).Key)
	}
	return h
}

// prefetchLine returns a prefetch as a scenario file prints it.
func prefetchLine(v *cluster.View, f *cluster.Prefetch) string {
	var b strings.Builder
	fmt.Fprintf(&b, "prefetch %s to %s", v.Artifact(f.Artifact).Name, v.Node(f.Node).Spec.Name)
	for i, id := range f.Drops {
		b.WriteString([]string{", dropping ", " "}[min(i, 1)] + v.Artifact(id).Name)
	}
	return b.String()
}
