package kube

import (
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"time"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/world"

	"github.com/headrace-dev/headrace/live/kube/facts"
)

// books keep the world equal to what the API server told, plus what is in
// flight. They have one owner, read no clock and call nobody: time comes in with
// every call, binds go out as values.
type books struct {
	world  *world.World
	turns  []*turn // the profiles, in the order in which they decide
	log    *slog.Logger
	record *recording // nil: nothing is recorded

	now time.Time
	// tellAfter is how long a pod waits before it is told why.
	tellAfter time.Duration
	cycle     uint64
	serial    uint64 // of the last bind
	pods      map[string]*pod
	nodes     map[string]*node
	at        map[string]map[string]*pod   // bound pods by the node they name, known or not
	again     moment.Instant               // when the next pod that backs off has its turn
	places    map[string]world.DomainAdded // domains the world knows
	// namespaces holds the labels of those that are known.
	namespaces map[string]map[string]string
	groups     map[string]*group
	tenants
	complaints []complaint // about pods, not told yet
	works      map[string]*work
	looked     map[string]time.Time // when works that others wait for were looked at
	resettle   []string             // pods that are to be settled anew

	draws      draws      // devices that we pick ourselves
	exclusions exclusions // what the last check and volumes say
	evictions
	heirs
	learner
	caches   caches
	fetching fetching
	// stirred says that something happened since the last cycle after which a pod
	// may be placed.
	stirred bool
}

// footing is how a pod stands in the world.
type footing uint8

const (
	outside footing = iota // the world does not know it
	waiting
	placing // a bind is in flight; charged
	charged
	holding // charged with room that others are still to leave
)

// pod is what is known of one.
type pod struct {
	seen    facts.Pod
	footing footing
	entered world.PodAdded // what the world was told of it
	node    string         // where it is charged or would be; empty for none
	serial  uint64         // of its last bind
	running bool           // the world knows that it runs
	first   time.Time
	tries   int
	refusal string // of the last bind
	why     why    // why it waits, as of cycle asOf
	asOf    uint64
	told    why // what was last written to it about why it waits
	toldAt  time.Time
	story   story
	eviction
	outlook
	vetoes int // refusals by the last check in a row
	bar    bar // what its volumes say
	// lineless says why it waits for a queue; empty: it does not.
	lineless string
	works    string         // the work that it is part of, by the name that the world knows it by
	job      world.JobFacts // what it says of that, as far as it can be meant
	jobSeen  world.JobFacts // as it was seen then
	// unordered says why it cannot come after what it says it does; empty: it can.
	unordered string
	faults    []string // of its annotations, as told
	observed  bool     // what is expected has learned of it
	arrived   bool     // and of the images that it needs
}

// node is what is known of one.
type node struct {
	seen facts.Node
	life cluster.Life // as the world has it
}

// why is the reason of a waiting pod.
type why struct {
	kind, sentence string
	reason         *decision.Reason // where the engine gave one
}

func newBooks(policy *engine.Policy, log *slog.Logger) *books {
	return &books{
		tellAfter: DefaultBeat,
		learner:   learner{foretold: foretold{visions: make(map[string]*vision)}},
		caches:    newCaches(Caching{}), fetching: newFetching(nil, "", ""),
		world: world.New(), turns: []*turn{{Profile: Profile{Policy: policy}}}, log: log,
		pods: make(map[string]*pod), nodes: make(map[string]*node), at: make(map[string]map[string]*pod),
		again: moment.Never, places: make(map[string]world.DomainAdded),
		namespaces: make(map[string]map[string]string), draws: newDraws(), exclusions: newExclusions(), evictions: newEvictions(), heirs: newHeirs(), groups: make(map[string]*group), tenants: newTenants(), works: make(map[string]*work),
	}
}

// tick tells the books what time it is. Time never runs backwards in them: from
// the first instant on they count what a clock that is never set says has passed.
func (b *books) tick(now time.Time) {
	if b.now.IsZero() {
		b.now = now
	} else if passed := now.Sub(b.now); passed > 0 {
		b.now = b.now.Add(passed)
	}
}

func (b *books) instant() moment.Instant { return moment.Instant(b.now.UnixMicro()) }

// apply takes an event in, and records it. Whatever enters the world passes here.
func (b *books) apply(e world.Event) error {
	if err := b.world.Apply(b.instant(), e); err != nil {
		return err
	}
	if b.record != nil {
		b.record.Event(b.instant(), e)
	}
	return nil
}

// must applies an event that the books know to be possible.
func (b *books) must(e world.Event) {
	if err := b.apply(e); err != nil {
		panic(fmt.Sprintf("kube: %T: %v", e, err))
	}
}

// podSeen takes in what the API server tells of a pod.
func (b *books) podSeen(key string, seen facts.Pod) {
	p := b.pods[key]
	if p != nil && p.seen.UID != seen.UID {
		b.podGone(key)
		p = nil
	}
	if p == nil {
		if seen.Standing == facts.Absent {
			return
		}
		p = &pod{first: b.now, told: why{sentence: seen.Told}}
		b.pods[key] = p
		b.promised(key, &seen)
	}
	if seen.Standing == facts.Absent {
		b.noteRun(key, p)
	}
	seen = b.claimed(key, seen)
	if p.seen.Node != seen.Node || p.seen.Standing != seen.Standing {
		b.reindex(key, p, seen)
	}
	b.enlist(key, p.seen.Queue, seen.Queue)
	p.seen = seen
	b.settle(key, p)
	b.fetchSeen(key, &seen)
	if seen.Standing == facts.Absent {
		delete(b.visions, unitOf(key, p))
		b.dismiss(key, p)
		delete(b.pods, key)
	}
	b.settleOrders()
}

// podGone takes in that a pod is deleted.
func (b *books) podGone(key string) {
	p := b.pods[key]
	if p == nil {
		return
	}
	b.noteRun(key, p)
	b.fetchGone(key)
	b.unclaim(key)
	b.reindex(key, p, facts.Pod{})
	b.enlist(key, p.seen.Queue, "")
	p.seen.Standing = facts.Absent
	b.settle(key, p)
	delete(b.visions, unitOf(key, p))
	b.dismiss(key, p)
	delete(b.pods, key)
	b.settleOrders()
}

// reindex keeps the index of bound pods by node.
func (b *books) reindex(key string, p *pod, seen facts.Pod) {
	if p.seen.Standing == facts.Charged {
		delete(b.at[p.seen.Node], key)
		if len(b.at[p.seen.Node]) == 0 {
			delete(b.at, p.seen.Node)
		}
	}
	if seen.Standing == facts.Charged {
		if b.at[seen.Node] == nil {
			b.at[seen.Node] = make(map[string]*pod)
		}
		b.at[seen.Node][key] = p
	}
}

// settle makes the world agree with what was seen of a pod. What is in flight
// is ahead of what was seen, and stands.
func (b *books) settle(key string, p *pod) {
	switch p.seen.Standing {
	case facts.Absent, facts.Held:
		b.tie(key, p)
		b.drop(key, p)
	case facts.Waiting:
		b.queued(p)
		b.needed(p)
		b.employ(key, p)
		b.relabel(key, p)
		b.tie(key, p)
		if p.aside() && p.footing == waiting {
			b.drop(key, p)
		}
		if p.footing == waiting && !reflect.DeepEqual(p.seen.Added, p.entered) {
			b.drop(key, p) // it asks for something else now
		}
		if p.footing == outside && !p.aside() {
			if b.enter(key, p) && p.tries == 0 {
				b.observe(key)
				b.arrives(key)
			}
		}
	case facts.Charged:
		b.queued(p)
		b.needed(p)
		b.employ(key, p)
		b.tie(key, p)
		b.relabel(key, p)
		b.settleBound(key, p)
	}
}

// settleBound charges a pod where it is bound. That is a fact and no question: a
// node may be overdrawn by it, and takes nothing new until enough has left.
func (b *books) settleBound(key string, p *pod) {
	here := p.node == p.seen.Node
	b.unhold(key, p)
	switch {
	case b.nodes[p.seen.Node] == nil:
		b.drop(key, p) // bound to a node that is not there
		return
	case p.footing == placing && here:
		b.must(world.Bound{Name: key})
	case p.footing == charged && here && p.stands():
	default:
		if !p.stands() {
			b.drop(key, p) // resized, or of another queue
		}
		if p.footing == outside && !b.enter(key, p) {
			return
		}
		b.must(world.PodFound{Name: key, Node: p.seen.Node, GoneBy: p.seen.GoneBy})
		p.running = false
	}
	p.footing, p.node = charged, p.seen.Node
	b.cameTrue(key, p)
	if p.seen.Running && !p.running && !p.leaving {
		b.must(world.Started{Name: key})
		p.running = true
		b.stirred = b.stirred || p.seen.Added.Surges && len(b.surges) > 0 // another may go now
	}
	b.depart(key, p)
}

// stands says whether the world was told of a pod what counts for one that is bound.
func (p *pod) stands() bool {
	return sameAmounts(&p.entered.Request, &p.seen.Added.Request) && p.entered.Queue == p.seen.Added.Queue && p.entered.Job == p.seen.Added.Job
}

// aside says whether a pod that waits is not in line: for want of a queue, or of
// knowledge about its volumes.
func (p *pod) aside() bool { return p.lineless != "" || p.unordered != "" || p.unlooked() }

// sameAmounts says whether two requests take the same from a node.
func sameAmounts(a, c *world.Request) bool {
	return a.CPU == c.CPU && a.Memory == c.Memory && maps.Equal(a.Extended, c.Extended) &&
		reflect.DeepEqual(a.Devices, c.Devices)
}

// enter makes a pod known to the world, where it waits. One that the world does not
// take, whatever its author wrote, is held back and told why.
func (b *books) enter(key string, p *pod) bool {
	if err := b.apply(p.seen.Added); err != nil {
		b.log.Error("a pod cannot be taken in", "pod", key, "because", err)
		p.seen.Why = "what cannot be read: " + err.Error()
		if p.seen.Standing == facts.Waiting {
			p.seen.Standing = facts.Held
		}
		return false
	}
	p.entered = p.seen.Added
	b.exclusions.stale = b.exclusions.stale || p.seen.Tied != ""
	p.footing = waiting
	b.stirred = true
	return true
}

// drop takes a pod out of the world, wherever it stands there.
func (b *books) drop(key string, p *pod) {
	b.unhold(key, p)
	if p.footing != outside {
		b.must(world.PodRemoved{Name: key})
		b.stirred = true
		if p.node != "" {
			b.left(p)
		}
	}
	p.leaving, p.guard = false, ""
	p.footing, p.node, p.running = outside, "", false
}
