package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/rank"
	"github.com/headrace-dev/headrace/internal/core/tidy"
	"github.com/headrace-dev/headrace/internal/world"

	"github.com/headrace-dev/headrace/live/kube/facts"
)

const (
	// batchWindow is how long arrivals are collected before a cycle.
	batchWindow = 10 * time.Millisecond
	// bindWorkers carry out binds: kube-apiserver gains nothing from more.
	bindWorkers = 32
	// longBindWorkers wait for volumes, each for minutes maybe.
	longBindWorkers = 64
	// stirFor is for how long volumes are looked at, beat by beat, after something about
	// them changed: at once, the checker may not have heard of it.
	stirFor = 3 * time.Second
	// remarkWorkers write reasons, which are not urgent.
	remarkWorkers = 4
	// drainMost bounds how long binds in flight may take to end when it is told to
	// stop: most take milliseconds.
	drainMost = 5 * time.Second
	// inboxLength lets informers run ahead a little of the one who reads.
	inboxLength = 1024
)

// Config says what to schedule, and how.
type Config struct {
	Client kubernetes.Interface
	// Dynamic reads and writes PodGroups of our own and Queues, where the cluster
	// serves them.
	// Nil: they are not looked at.
	Dynamic dynamic.Interface
	// Name is the schedulerName of the pods to take. Empty: DefaultName.
	Name string
	// Policy decides. Nil: our own.
	Policy *engine.Policy
	// Profiles, where there are several names with policies of their own. They
	// replace Name and Policy.
	Profiles []Profile
	// GPU is the resource under which nodes offer cards. Empty: DefaultGPU.
	GPU corev1.ResourceName
	// Levels are the labels of nodes that say where they are. Nil: facts.DefaultLevels.
	Levels *facts.Levels
	// Preemption lets pods of lower priority give way to one that has no room.
	Preemption bool
	// Tiers are how long work that can go on from a saved state runs before it is set back
	// behind work of its queue and priority that has run for less. Nil: as the policy has it.
	Tiers *rank.Tiers
	// Reserve says for whom room is reserved that cannot start yet.
	Reserve engine.Reserve
	// StartTimes has it work out, every ten seconds, when those who wait start.
	StartTimes bool
	// Tidy says by which rules pods are moved. Nil: none are.
	Tidy *tidy.Rules
	// SLAs are classes of service beside those of cluster.DefaultSLAs, or other terms for
	// these.
	SLAs []world.SLADefined
	// Record is the file to write a journal to; empty for none. It ends at
	// RecordLimit bytes of text; 0 is DefaultRecordLimit.
	Record      string
	RecordLimit int64
	// ServeLedger lets callers from this very machine read the books.
	ServeLedger bool
	// BeliefsNamespace is where what was learned is kept, in a ConfigMap; empty: it
	// is not. It is written every BeliefsEvery; 0 is half a minute.
	BeliefsNamespace string
	BeliefsEvery     time.Duration
	Log              *slog.Logger
	// Metrics are told what happens. Nil: nobody is.
	Metrics *Metrics
	// Caching says what is made of the images that nodes have, and Prefetch has images
	// fetched before pods need them; nil: none are.
	Caching  Caching
	Prefetch *Prefetching
	// Check makes the checker that is asked before each bind. Nil: none is.
	Check func(context.Context, Around) (Checker, error)
	// Events says which events are written; see EventMode.
	Events EventMode
	// Beat is how often reasons are written and figures are taken, and how long a pod
	// waits before it is told why, so that one that is placed at once costs a single
	// write. 0: DefaultBeat.
	Beat time.Duration
	// Review is how often everything is looked at again. 0: DefaultReview.
	Review time.Duration
	// Namespace is where the scheduler says of itself where it can be reached, and
	// what events about itself belong to. Empty: DefaultNamespace.
	Namespace string
	// Term returns the instant until which this instance may write binds, claims
	// and evictions. It is asked before each. Nil: it may for ever.
	Term func() time.Time
}

// The defaults of a Config.
const (
	DefaultName                     = "headrace"
	DefaultGPU  corev1.ResourceName = "nvidia.com/gpu"
	// DefaultBeat is often enough for those who read, and seldom enough for the API server.
	DefaultBeat = time.Second
	// DefaultReview costs next to nothing where nothing has changed.
	DefaultReview = 10 * time.Second
	// DefaultNamespace is that of the lease, too.
	DefaultNamespace = "kube-system"
)

// Title is the name that a scheduler with this configuration goes by: that of its
// first profile.
func (c *Config) Title() string {
	switch {
	case len(c.Profiles) > 0:
		return c.Profiles[0].Name
	case c.Name == "":
		return DefaultName
	}
	return c.Name
}

func (c *Config) beat() time.Duration   { return cmp.Or(c.Beat, DefaultBeat) }
func (c *Config) review() time.Duration { return cmp.Or(c.Review, DefaultReview) }

// Scheduler watches a cluster and binds its pods.
type Scheduler struct {
	config   Config
	inbox    chan message
	binds    chan Bind
	remarks  chan Remark
	outcomes chan Outcome
	// longBinds are binds that volumes have to be made ready for; stirs says that
	// volumes may have changed.
	longBinds chan Bind
	stirs     chan struct{}
	asks      chan func(*owner)
	ledgers   chan *Ledger // to be audited
	looks     chan queueLook
	works     chan string // to be asked for
	events    chan event
	presence  *Presence // where it can be reached; set before it runs

	unable    unable
	forbidden chan error // what the API server refused to watchers

	evictions chan Eviction
	evicted   chan EvictOutcome
	orders    chan FetchOrder
	replies   chan fetchReply
	keeper    keeper
	steps     chan SurgeTask
	surged    chan SurgeOutcome

	figures atomic.Pointer[Figures]
	synced  atomic.Bool
	born    time.Time
	beaten  atomic.Int64 // when the owner was last seen alive, in nanoseconds since born
}

// New returns a scheduler that does nothing until it is run.
func New(c Config) *Scheduler {
	if c.Name == "" {
		c.Name = DefaultName
	}
	if c.GPU == "" {
		c.GPU = DefaultGPU
	}
	if c.Policy == nil {
		c.Policy = engine.Headrace()
	}
	if len(c.Profiles) == 0 {
		c.Profiles = []Profile{{Name: c.Name, Policy: c.Policy}}
	}
	for i := range c.Profiles {
		if c.Preemption {
			c.Profiles[i].Policy = c.Profiles[i].Policy.Preempting()
			if c.Tiers != nil {
				c.Profiles[i].Policy = c.Profiles[i].Policy.Tiered(*c.Tiers)
			}
		} else {
			c.Profiles[i].Policy = c.Profiles[i].Policy.Staying()
		}
		c.Profiles[i].Policy = c.warms(c.tidied(c.foresee(c.Profiles[i].Policy)))
	}
	c.Name, c.Policy = c.Profiles[0].Name, c.Profiles[0].Policy
	if c.Namespace == "" {
		c.Namespace = DefaultNamespace
	}
	if c.Levels == nil {
		c.Levels = facts.DefaultLevels()
	}
	if c.RecordLimit == 0 {
		c.RecordLimit = DefaultRecordLimit
	}
	if c.BeliefsEvery == 0 {
		c.BeliefsEvery = keepEvery
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	s := &Scheduler{
		born: time.Now(), config: c, inbox: make(chan message, inboxLength), binds: make(chan Bind), remarks: make(chan Remark),
		outcomes: make(chan Outcome), longBinds: make(chan Bind), stirs: make(chan struct{}, 1), asks: make(chan func(*owner)), ledgers: make(chan *Ledger, 1), looks: make(chan queueLook, 1), works: make(chan string, looksMost),
		events: make(chan event, eventsKept), forbidden: make(chan error, 1),
		evictions: make(chan Eviction), evicted: make(chan EvictOutcome), orders: make(chan FetchOrder), replies: make(chan fetchReply), keeper: keeper{due: make(chan *Kept, 1)}, steps: make(chan SurgeTask), surged: make(chan SurgeOutcome),
	}
	s.figures.Store(&Figures{})
	return s
}

// Name is the schedulerName of the first profile, and what the lease is called.
func (s *Scheduler) Name() string { return s.config.Name }

// Figures returns what there is to see, at most about a second old.
func (s *Scheduler) Figures() Figures { return *s.figures.Load() }

// Ready says whether the world has been rebuilt from the API server.
func (s *Scheduler) Ready() bool { return s.synced.Load() }

// Alive says whether the owner of the world has been seen within a span.
func (s *Scheduler) Alive(within time.Duration) bool {
	return time.Since(s.born)-time.Duration(s.beaten.Load()) < within
}

// Run schedules until the context ends, and lets the binds in flight come to their
// end. Where the cause is ErrDisplaced it drops them. A Scheduler runs once.
func (s *Scheduler) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	calls, abort := context.WithCancel(context.WithoutCancel(ctx))
	defer abort()
	var workers sync.WaitGroup
	for range bindWorkers {
		workers.Go(func() { s.bindAll(ctx, calls, s.binds) }) // ends with ctx
	}
	for range remarkWorkers {
		workers.Go(func() { s.remarkAll(ctx) }) // ends with ctx
	}
	for range evictWorkers {
		workers.Go(func() { s.evictAll(ctx) }) // ends with ctx
	}
	for range lookWorkers {
		workers.Go(func() { s.lookAll(ctx) }) // ends with ctx
	}
	if s.config.Prefetch != nil {
		workers.Go(func() { (&fetcher{Scheduler: s}).fetchAll(ctx) }) // ends with ctx
	}
	workers.Go(func() { s.tellAll(ctx) })        // ends with ctx
	workers.Go(func() { s.checkAbilities(ctx) }) // ends with ctx
	workers.Go(func() { s.checkClock(ctx) })     // ends with ctx
	workers.Go(func() { s.announce(ctx) })       // ends with ctx
	all := s.informers()
	var checker Checker
	var err error
	if s.config.Check != nil {
		if checker, err = s.config.Check(ctx, Around{Client: s.config.Client, Informers: all, Stirred: s.stir}); err != nil {
			cancel()
			abort()
			workers.Wait()
			return fmt.Errorf("prepare the last check: %w", err)
		}
		for range longBindWorkers {
			workers.Go(func() { s.bindAll(ctx, calls, s.longBinds) }) // ends with ctx
		}
	}
	watched := make(chan error, 1)
	workers.Go(func() { watched <- s.watch(ctx, all) }) // ends with ctx
	o := owner{Scheduler: s, books: newBooks(s.config.Policy, s.config.Log), checker: checker, heard: newVersions()}
	o.books.tellAfter = s.config.beat()
	if s.config.Record != "" {
		if o.books.record, err = record(s.config.Record, s.config.RecordLimit, s.config.Policy); err != nil {
			cancel()
			abort()
			workers.Wait()
			return err
		}
	}
	o.books.tick(time.Now())
	o.books.caches, o.books.fetching = newCaches(s.config.Caching), newFetching(s.config.Prefetch, s.config.Name, s.config.Namespace)
	o.books.divide(s.config.Profiles)
	if err := o.books.promise(s.config.SLAs); err != nil {
		cancel()
		abort()
		workers.Wait()
		return err
	}
	if o.kept = s.newCheckpoint(); o.kept != nil {
		o.kept.load(ctx, o.books)
		workers.Go(func() { o.kept.keepAll(ctx) }) // ends with ctx
	}
	if s.config.Tidy != nil {
		s.loadHeirs(ctx, o.books)
		workers.Go(func() { s.keepWhenDue(ctx) }) // ends with ctx
		workers.Go(func() { s.scaleAll(ctx) })    // ends with ctx
	}
	err = o.run(ctx, watched)
	displaced := errors.Is(context.Cause(ctx), ErrDisplaced)
	cancel()
	if displaced {
		abort()
	}
	limit := time.AfterFunc(drainMost, abort)
	defer limit.Stop()
	workers.Wait()
	return errors.Join(err, o.books.record.end())
}

// message is what an informer tells the owner: one of its fields is set.
type message struct {
	node     *facts.Node
	nodeGone string
	pod      *facts.Pod
	podKey   string // of pod, or of a pod that is gone when pod is nil
	version  string // of node or pod
	rawNode  *corev1.Node
	rawPod   *corev1.Pod
	synced   bool

	budget     *facts.Budget
	budgetGone *facts.Budget // as last seen
	// tell is everything else: what is done to the books.
	tell func(*books)
}

// owner is the one goroutine that owns the world.
type owner struct {
	*Scheduler
	books   *books
	checker Checker  // nil: none
	heard   versions // what the books were told of
	kept    *checkpoint
	// due are binds and remarks that no worker has taken yet.
	dueBinds     []Bind
	dueLongBinds []Bind
	dueRemarks   []Remark
	dueEvictions []Eviction
	dueOrders    []FetchOrder
	dueSteps     []SurgeTask
	// stirred is until when volumes are looked at again.
	stirred    time.Time
	decisions  uint64
	refused    uint64
	lastReview time.Time
	// lastRemarks is when reasons were last taken to be written.
	lastRemarks time.Time
	pace        pace
	fragments   *float64 // as of the last review
}

// due is what is to be sent next, and where to: nowhere while nothing is due.
func due[T any](to chan<- T, line []T) (out chan<- T, next T) {
	if len(line) == 0 {
		return nil, next
	}
	return to, line[0]
}

// run reads what comes in and thinks when it is time to.
func (o *owner) run(ctx context.Context, watched <-chan error) error {
	beats := time.NewTicker(o.config.beat())
	defer beats.Stop()
	o.lastRemarks = time.Now()
	var window <-chan time.Time // runs while arrivals are collected
	for {
		binds, nextBind := due(o.binds, o.dueBinds)
		longBinds, nextLongBind := due(o.longBinds, o.dueLongBinds)
		remarks, nextRemark := due(o.remarks, o.dueRemarks)
		evictions, nextEviction := due(o.evictions, o.dueEvictions)
		orders, nextOrder := due(o.orders, o.dueOrders)
		steps, nextStep := due(o.steps, o.dueSteps)
		select {
		case <-ctx.Done():
			return nil
		case orders <- nextOrder:
			o.dueOrders = o.dueOrders[1:]
		case r := <-o.replies:
			o.books.tick(time.Now())
			o.books.fetchOrdered(&r.order, r.uid, r.err)
		case steps <- nextStep:
			o.dueSteps = o.dueSteps[1:]
		case out := <-o.surged:
			o.books.tick(time.Now())
			o.books.surged(&out)
			o.dueSteps = append(o.dueSteps, o.books.takeSteps()...)
		case evictions <- nextEviction:
			o.dueEvictions = o.dueEvictions[1:]
		case e := <-o.evicted:
			o.books.tick(time.Now())
			o.books.evicted(&e)
			if e.Err != nil {
				o.config.Log.Warn("an eviction was refused", "pod", e.Victim.Key, "because", e.Err)
			}
		case err := <-watched:
			if err != nil {
				return fmt.Errorf("watch the cluster: %w", err)
			}
			watched = nil
		case binds <- nextBind:
			o.dueBinds = o.dueBinds[1:]
		case longBinds <- nextLongBind:
			o.dueLongBinds = o.dueLongBinds[1:]
		case <-o.stirs:
			o.stirred = time.Now().Add(stirFor)
		case remarks <- nextRemark:
			o.dueRemarks = o.dueRemarks[1:]
		case m := <-o.inbox:
			o.hear(&m)
		case out := <-o.outcomes:
			o.learn(&out)
		case do := <-o.asks:
			do(o)
		case <-window:
			window = nil
			o.think(decision.CycleArrival)
		case <-beats.C:
			o.beat()
		}
		if window == nil && o.books.stirred && o.synced.Load() {
			window = time.After(batchWindow)
		}
	}
}

// hear takes in what an informer told.
func (o *owner) hear(m *message) {
	o.books.tick(time.Now())
	o.heard.hear(m)
	o.books.hear(m)
	if o.checker != nil {
		tell(o.checker, m)
	}
	if m.synced {
		o.books.recallHeirs()
		o.books.expect()
		o.books.adoptFetches()
		f := o.books.figures()
		o.config.Log.Info("the world is rebuilt", "nodes", f.Nodes, "pods", len(o.books.pods), "bound", f.Bound, "waiting", f.Waiting)
		o.synced.Store(true)
		if f.GPUs == 0 {
			o.config.Log.Warn("no node offers GPUs, so pods that ask for some wait until one does", "resource", o.config.GPU, "nodes", f.Nodes)
		}
	}
}

// hear takes in what an informer told.
func (b *books) hear(m *message) {
	switch {
	case m.node != nil:
		b.nodeSeen(*m.node)
		b.imagesSeen(m.node)
	case m.nodeGone != "":
		b.nodeGone(m.nodeGone)
	case m.pod != nil:
		b.podSeen(m.podKey, *m.pod)
	case m.podKey != "":
		b.podGone(m.podKey)
	case m.budget != nil:
		b.budgetSeen(*m.budget)
	case m.budgetGone != nil:
		b.budgetGone(m.budgetGone.Namespace, m.budgetGone.Key)
	case m.tell != nil:
		m.tell(b)
	}
}

// learn takes in what became of a bind.
func (o *owner) learn(out *Outcome) {
	o.books.tick(time.Now())
	heeded := o.books.outcome(out)
	if out.Err != nil {
		if heeded && o.checker != nil {
			o.checker.Release(out.Bind.Key)
		}
		o.refused++
		o.config.Log.Warn("a bind was refused", "pod", out.Bind.Key, "node", out.Bind.Node, "because", out.Err)
	}
}

// think runs one cycle.
func (o *owner) think(kind decision.CycleKind) {
	started := time.Now()
	o.books.tick(started)
	if o.checker != nil {
		o.books.lookAtVolumes(o.checker.Barred)
	}
	binds := o.vet(o.books.decide(kind))
	o.decisions += uint64(len(binds))
	for _, b := range binds {
		if b.prepare != nil {
			o.dueLongBinds = append(o.dueLongBinds, b)
		} else {
			o.dueBinds = append(o.dueBinds, b)
		}
	}
	o.dueEvictions = append(o.dueEvictions, o.books.takeEvictions()...)
	o.dueSteps = append(o.dueSteps, o.books.takeSteps()...)
	o.config.Metrics.cycle(kind, time.Since(started))
}

// beat does what is done every now and then.
func (o *owner) beat() {
	now := time.Now()
	o.beaten.Store(int64(now.Sub(o.born)))
	if err := o.books.record.beat(); err != nil {
		o.config.Log.Error("the journal ends", "because", err)
	}
	if !o.synced.Load() {
		return
	}
	o.books.tick(now)
	o.books.resume()
	o.books.expire()
	o.books.forgo()
	o.books.followSurges()
	o.dueSteps = append(o.dueSteps, o.books.takeSteps()...)
	o.offerHeirs(o.books)
	if now.Before(o.stirred) {
		o.books.volumesStirred()
	}
	o.books.beginEpoch()
	o.fetchesBeat()
	if now.Sub(o.lastReview) >= o.config.review() {
		o.books.retireQueues()
		o.review(now)
	}
	o.kept.beat(now, o.books)
	// Binds come before words about them, though not for ever.
	if len(o.dueRemarks) == 0 && (len(o.dueBinds) == 0 || now.Sub(o.lastRemarks) >= o.config.review()) {
		o.lastRemarks = now
		o.dueRemarks = append(o.books.remarks(), o.books.groupRemarks()...)
	}
	o.dueRemarks = append(o.dueRemarks, o.books.releases()...)
	for _, c := range o.books.takeComplaints() {
		o.tellOfPod(c.key, c.uid, corev1.EventTypeWarning, c.reason, c.says)
	}
	o.offerLooks()
	f := o.books.figures()
	f.Decisions, f.Refused = o.decisions, o.refused
	f.PerSecond, f.Fragmentation = o.pace.beat(now, o.decisions), o.fragments
	o.figures.Store(&f)
	o.config.Metrics.figures(&f)
}
