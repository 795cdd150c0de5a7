package rank

import (
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
)

// Fetching is how long a start on a node waits for what is not there: without what is
// prefetched beside it, one artifact after the other. Nobody knows where nothing is known
// of the node's cache.
func Fetching(v *cluster.View, artifacts []cluster.ArtifactID, node cluster.NodeID, beside bool, now moment.Instant) (span moment.Span, known bool) {
	c := v.Node(node).Cache
	if c == nil {
		return 0, false
	}
	var times cluster.FetchTimes
	for _, id := range artifacts {
		if c.Find(id) >= 0 {
			continue
		}
		a := v.Artifact(id)
		takes := c.Takes(a)
		if at := c.Awaits(id); at >= 0 {
			takes = max(takes-max(now.Since(c.Coming[at].Since), 0), 0)
		}
		times[a.Sort] += takes
	}
	return times.Total(beside), true
}

// Cold is how long a start on a node would wait if nothing of it were there.
func Cold(v *cluster.View, artifacts []cluster.ArtifactID, node cluster.NodeID, beside bool) moment.Span {
	c := v.Node(node).Cache
	if c == nil {
		return 0
	}
	var times cluster.FetchTimes
	for _, id := range artifacts {
		a := v.Artifact(id)
		times[a.Sort] += c.Takes(a)
	}
	return times.Total(beside)
}
