package kube

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/world"

	"github.com/headrace-dev/headrace/api/v1alpha1"

	"github.com/headrace-dev/headrace/live/kube/facts"
)

// queue is what is known of a tenant's queue.
type queue struct {
	seen    facts.Queue
	known   bool             // to the world
	entered world.QueueAdded // as the world has it
	gone    bool             // its object is deleted; the world still has it
	refused string           // why what was seen is not in force; empty: it is
}

// tenants is the part of the books that is about queues.
type tenants struct {
	queues map[string]*queue
	// lines are the pods whose label names a queue, by that name.
	lines map[string]map[string]bool
	// usages are what queues used, as it was kept, until they come.
	usages map[string]cluster.Usage
	// epoch is when the last quota epoch began; 0: none has.
	epoch     moment.Instant
	keptEpoch moment.Instant
}

func newTenants() tenants {
	return tenants{queues: make(map[string]*queue), lines: make(map[string]map[string]bool), usages: make(map[string]cluster.Usage)}
}

// queueSeen takes in what the API server tells of a queue.
func (b *books) queueSeen(seen facts.Queue) {
	name, first := seen.Added.Name, !b.anyQueue()
	q := b.queues[name]
	if q == nil {
		q = &queue{}
		b.queues[name] = q
	}
	if q.known && !q.gone && reflect.DeepEqual(q.seen, seen) {
		return // only its status is another one
	}
	q.seen, q.gone = seen, false
	b.settleQueues()
	b.requeue(name)
	if first {
		b.requeueAll()
	}
}

// queueGone takes in that a queue is deleted. The world keeps it while anything is
// in it.
func (b *books) queueGone(name string) {
	q := b.queues[name]
	if q == nil {
		return
	}
	q.gone = true
	b.requeue(name)
	b.retireQueues()
	if !b.anyQueue() {
		b.requeueAll()
	}
}

// anyQueue says whether there is a queue in the cluster. Without one, what pods say
// of queues is only a label.
func (b *books) anyQueue() bool {
	for _, q := range b.queues { // order: any will do
		if !q.gone {
			return true
		}
	}
	return false
}

// settleQueues makes the world agree with what was seen of queues, parents first.
func (b *books) settleQueues() {
	for again := true; again; {
		again = false
		for _, name := range slices.Sorted(maps.Keys(b.queues)) {
			q := b.queues[name]
			if q.gone {
				continue
			}
			refused, news := q.refused, b.settleQueue(q)
			if news || refused != q.refused {
				b.requeue(name)
			}
			again, b.stirred = again || news, b.stirred || news
		}
	}
}

// settleQueue tells the world of one queue; it says whether the world has news. One
// that cannot be taken as it is leaves what was in force before.
func (b *books) settleQueue(q *queue) bool {
	added := q.seen.Added
	switch {
	case q.seen.Why != "":
		q.refused = q.seen.Why
		return false
	case q.known && reflect.DeepEqual(q.entered, added):
		q.refused = ""
		return false
	case added.Parent != "" && (b.queues[added.Parent] == nil || !b.queues[added.Parent].known):
		q.refused = fmt.Sprintf("waits for its parent, queue %q, which %s", added.Parent, b.queueMissing(added.Parent))
		return false
	}
	var event world.Event = added
	if q.known {
		event = world.QueueChanged{QueueAdded: added}
	}
	if err := b.apply(event); err != nil {
		q.refused = err.Error()
		return false
	}
	q.known, q.entered, q.refused = true, added, ""
	if usage, kept := b.usages[added.Name]; kept {
		delete(b.usages, added.Name)
		if err := b.apply(world.QueueUsage{Name: added.Name, Usage: usage}); err != nil {
			b.log.Warn("what a queue used before is not used", "queue", added.Name, "because", err)
		}
	}
	return true
}

// queueMissing says why the world does not have a queue.
func (b *books) queueMissing(name string) string {
	switch q := b.queues[name]; {
	case q == nil:
		return "does not exist"
	case q.gone:
		return "is deleted"
	default:
		return "is not in force: " + q.refused
	}
}

// retireQueues takes queues out of the world whose objects are deleted and that
// nothing is in any more, those below first.
func (b *books) retireQueues() {
	for again := true; again; {
		again = false
		for _, name := range slices.Sorted(maps.Keys(b.queues)) {
			q := b.queues[name]
			if !q.gone || q.known && b.apply(world.QueueRemoved{Name: name}) != nil {
				continue
			}
			delete(b.queues, name)
			again, b.stirred = true, true
		}
	}
}

// enlist keeps the index of pods by the queue that they name.
func (b *books) enlist(key, before, now string) {
	if before == now {
		return
	}
	if delete(b.lines[before], key); len(b.lines[before]) == 0 {
		delete(b.lines, before)
	}
	if now == "" {
		return
	}
	if b.lines[now] == nil {
		b.lines[now] = make(map[string]bool)
	}
	b.lines[now][key] = true
}

// requeue looks again at the pods that name a queue.
func (b *books) requeue(name string) {
	for _, key := range slices.Sorted(maps.Keys(b.lines[name])) {
		b.settle(key, b.pods[key])
	}
}

func (b *books) requeueAll() {
	for _, name := range slices.Sorted(maps.Keys(b.lines)) {
		b.requeue(name)
	}
}

// queued works out which queue a pod is in, and why it waits for one. A pod that
// holds something stays in a queue that is deleted.
func (b *books) queued(p *pod) {
	p.seen.Added.Queue, p.lineless = "", ""
	name := p.seen.Queue
	if name == "" {
		return
	}
	q := b.queues[name]
	switch holds := p.footing != outside && p.footing != waiting; {
	case q != nil && q.known && (!q.gone || holds && p.entered.Queue == name):
		p.seen.Added.Queue = name
	case p.seen.Standing == facts.Waiting && b.anyQueue():
		p.lineless = fmt.Sprintf("its label %s names queue %q, which %s", v1alpha1.QueueLabel, name, b.queueMissing(name))
	}
}

// beginEpoch closes quota epochs that have passed. What queues did while nobody was
// looking is not known; beyond an hour it does not matter.
func (b *books) beginEpoch() {
	now := b.instant()
	if b.world.View().Queues.Len() == 0 {
		return
	}
	if b.epoch == 0 || b.epoch > now {
		b.epoch = now
		return
	}
	for range cluster.HourEpochs {
		if now.Since(b.epoch) < cluster.QuotaEpoch {
			return
		}
		b.epoch = b.epoch.Add(cluster.QuotaEpoch)
		clear(b.usages) // of queues that have not come back
		b.must(world.EpochBegan{})
		b.stirred = true
	}
	if now.Since(b.epoch) >= cluster.QuotaEpoch {
		b.epoch = now
	}
}

// usage is what is believed of the use of queues, to be kept.
func (b *books) usage() map[string]cluster.Usage {
	out := maps.Clone(b.usages)
	v := b.world.View()
	for i := range v.Queues.Len() {
		if q := v.Queue(cluster.QueueID(i)); !q.Gone {
			out[q.Name] = q.Usage
		}
	}
	return out
}
