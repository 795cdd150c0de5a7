package journal

import (
	"reflect"

	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/rank"
	"github.com/headrace-dev/headrace/internal/core/tidy"
	"github.com/headrace-dev/headrace/internal/core/warm"
	"github.com/headrace-dev/headrace/internal/rivals"
	"github.com/headrace-dev/headrace/internal/world"
)

// Version is the version of the format. Readers refuse others.
const Version = 1

// Head is the first line: who decided, with what besides the cluster.
type Head struct {
	Journal int         `json:"headrace_journal"`
	Policy  string      `json:"policy"`
	Side    rivals.Side `json:"side"`
	// Preemption says that pods of lower priority may be evicted.
	Preemption bool `json:"preemption,omitempty"`
	// Tiers are how long work runs before it is set back behind what has run for less;
	// without any it never is.
	Tiers rank.Tiers `json:"tiers,omitempty"`
	// Reserve is for whom room is reserved. Foretells says that plans tell when those who
	// wait are expected to start, InReviews that those of reviews alone do.
	Reserve   engine.Reserve `json:"reserve,omitempty"`
	Foretells bool           `json:"foretells,omitempty"`
	InReviews bool           `json:"in_reviews,omitempty"`
	// Warms are the rules of warm starts, where they are others than the policy has.
	Warms *warm.Rules `json:"warms,omitempty"`
	// Tidies are the rules by which pods move; nil: none do.
	Tidies *tidy.Rules `json:"tidies,omitempty"`
}

// entry is any line after the first: an event, a cycle with its digest, or why
// the journal ends before the run did.
type entry struct {
	At     moment.Instant  `json:"at,omitempty"`
	Event  string          `json:"event,omitempty"`
	Data   any             `json:"data,omitempty"`
	Cycle  *decision.Cycle `json:"cycle,omitempty"`
	Digest string          `json:"digest,omitempty"`
	End    string          `json:"end,omitempty"`
}

// kinds are the events by the names they have in a journal. A name is never given
// to another event.
func kinds() map[string]world.Event {
	return map[string]world.Event{
		"accepted": world.Accepted{}, "accepted_together": world.AcceptedTogether{}, "bind_refused": world.BindRefused{}, "bound": world.Bound{},
		"claim_allocated": world.ClaimAllocated{}, "claim_released": world.ClaimReleased{},
		"device_health": world.DeviceHealth{}, "domain_added": world.DomainAdded{}, "evicted": world.Evicted{},
		"facts_known": world.FactsKnown{}, "hold_dropped": world.HoldDropped{}, "interned": world.Interned{},
		"group_added": world.GroupAdded{}, "group_changed": world.GroupChanged{}, "group_removed": world.GroupRemoved{},
		"job_added": world.JobAdded{}, "job_changed": world.JobChanged{}, "job_checkpointed": world.JobCheckpointed{}, "job_measured": world.JobMeasured{}, "job_removed": world.JobRemoved{}, "job_ended": world.JobEnded{},
		"learned": world.Learned{}, "lost": world.Lost{}, "node_added": world.NodeAdded{}, "node_changed": world.NodeChanged{}, "node_life": world.NodeLife{},
		"node_removed": world.NodeRemoved{}, "pod_added": world.PodAdded{}, "pod_changed": world.PodChanged{}, "pod_found": world.PodFound{}, "pod_removed": world.PodRemoved{},
		"budget_known": world.BudgetKnown{}, "evict_refused": world.EvictRefused{}, "resized": world.Resized{}, "resize_refused": world.ResizeRefused{}, "guarded": world.Guarded{},
		"leaving": world.Leaving{}, "pod_recalled": world.PodRecalled{}, "intent_recalled": world.IntentRecalled{}, "moves_recalled": world.MovesRecalled{}, "legacy_dropped": world.LegacyDropped{}, "pod_rests": world.PodRests{}, "legacy_recalled": world.LegacyRecalled{}, "group_recalled": world.GroupRecalled{},
		"job_recalled": world.JobRecalled{}, "excused": world.Excused{}, "shape_known": world.ShapeKnown{}, "reserved": world.Reserved{},
		"namespace_gone": world.NamespaceGone{}, "namespace_known": world.NamespaceKnown{}, "pod_labelled": world.PodLabelled{},
		"queue_added": world.QueueAdded{}, "queue_changed": world.QueueChanged{}, "queue_removed": world.QueueRemoved{},
		"artifact_known": world.ArtifactKnown{}, "cache_known": world.CacheKnown{}, "node_cached": world.NodeCached{},
		"prefetch_done": world.PrefetchDone{}, "prefetch_failed": world.PrefetchFailed{}, "prefetch_recalled": world.PrefetchRecalled{},
		"sla_defined": world.SLADefined{}, "sla_removed": world.SLARemoved{},
		"queue_usage": world.QueueUsage{}, "epoch_began": world.EpochBegan{}, "started": world.Started{},
	}
}

// names turns the table round.
func names() map[reflect.Type]string {
	out := make(map[reflect.Type]string)
	for name, e := range kinds() { // order: a map is filled
		out[reflect.TypeOf(e)] = name
	}
	return out
}
