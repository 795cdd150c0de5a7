package kube

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/world"

	"github.com/headrace-dev/headrace/live/kube/facts"
)

// Prefetching says how images are fetched before pods need them: by pods in the namespace
// of the scheduler that mount an image and do nothing.
type Prefetching struct {
	// Pause is the image that such a pod runs. Empty: DefaultPause.
	Pause string
	// PullSecrets name secrets of the namespace to pull with. Without any, images that pods
	// bring secrets for are not fetched.
	PullSecrets []string
	// First has pods wait without a place while what they lack is fetched to the node that
	// they would go to, as warm.Rules.First says.
	First bool
}

const (
	// DefaultPause is what the kubelet's own sandboxes run, in Kubernetes 1.37.
	DefaultPause = "registry.k8s.io/pause:3.10.2"
	// mostFetches bounds the fetches under way for pods to come, of all nodes: what a registry
	// can bear besides. mostUrgent bounds all of them: pods wait for the others, and would
	// pull by themselves otherwise.
	mostFetches, mostUrgent = 32, 512
	// A fetch ends in vain after fetchPatience, or after as often as long as it should take
	// as fetchSlack says where that is longer.
	fetchPatience = 10 * time.Minute
	fetchSlack    = 4
	// An image that does not come, or that its node drops within keptFor, is left alone for
	// a minute, then for twice as long each time, up to some hours. What was longer ago than
	// twice that is forgiven.
	firstBar, longestBar = time.Minute, 6 * time.Hour
	keptFor              = time.Hour
	// The rate at which nodes fetch is learned from ratesFrom fetches on of at least timedFrom
	// each, as the middle of the last ratesKept; a quarter more or less is no news.
	timedFrom            = 1 << 30
	ratesFrom, ratesKept = 4, 16
	leastRate, mostRate  = 1_000_000, 10_000_000_000
	// deleteAgain is the pause between two tries to delete a pod.
	deleteAgain = 10 * time.Second
)

// trouble is how often an image did not come, or not stay, and until when it is left alone
// for that.
type trouble struct {
	tries int
	until time.Time
}

// again notes it once more.
func (t *trouble) again(now time.Time) {
	if now.Sub(t.until) > 2*longestBar {
		t.tries = 0
	}
	t.until = now.Add(min(firstBar<<min(t.tries, 16), longestBar))
	t.tries++
}

// fetching is the part of the books about prefetches.
type fetching struct {
	*Prefetching         // nil: there are none
	scheduler, namespace string
	synced               bool                 // everything that was there has been told
	found                map[string]string    // before that: pods of an instance before, with their UIDs
	fetches              map[string]*fetch    // by pod
	arrived              map[string]time.Time // by node and image
	barred               map[*image]bool      // that are left alone
	dueFetches           []FetchOrder
	fetched              []Fetched
	rates                []quantity.Bytes // of the last fetches, per second
}

// fetch is one under way, or whose pod is still to be deleted.
type fetch struct {
	node, image, uid string
	until            time.Time // it has taken too long then
	ended            bool
	asked            time.Time // to be deleted; zero: no order is out
}

// FetchOrder has a pod made that fetches an image, or one deleted.
type FetchOrder struct {
	Key, UID string // UID of the one to delete; empty: whichever
	Delete   bool
	Node     string
	Image    string
	Decision string
	Until    time.Duration // it is of no use after
}

// Fetched is a fetch that has ended.
type Fetched struct {
	Node, Image string
	Size        quantity.Bytes
	Why         string // it came to nothing; empty: it came
}

func newFetching(p *Prefetching, scheduler, namespace string) fetching {
	return fetching{
		Prefetching: p, scheduler: scheduler, namespace: namespace,
		found: make(map[string]string), fetches: make(map[string]*fetch), arrived: make(map[string]time.Time), barred: make(map[*image]bool),
	}
}

// came says whether an image was fetched to a node so lately that the node need not list
// it yet.
func (f *fetching) came(node, image string, now time.Time) bool {
	at, fetched := f.arrived[node+" "+image]
	return fetched && now.Sub(at) < newlyCame
}

// notKept notes that a node has dropped an image that was fetched to it for others: there is
// less room than it seems.
func (b *books) notKept(node, image string) {
	key := node + " " + image
	if _, fetched := b.fetching.arrived[key]; !fetched {
		return
	}
	delete(b.fetching.arrived, key)
	b.giveUp(b.caches.images[image])
	b.log.Warn("a node has dropped what was fetched ahead", "node", node, "image", image)
}

// podFor names the pod that fetches an image to a node: there is never a second one.
func (f *fetching) podFor(node, image string) string {
	return fmt.Sprintf("%s/prefetch-%016x", f.namespace, chance.Hash(chance.HashString(f.scheduler), chance.HashString(node), chance.HashString(image)))
}

// fetchable says whether an image may be fetched now.
func (b *books) fetchable(im *image) bool {
	return im != nil && im.known && !im.byPods
}

// byPodsAlone says whether pods that need an image have to pull it by themselves now.
func (b *books) byPodsAlone(im *image) bool {
	f := &b.fetching
	return f.Prefetching != nil && (im.local || im.private && len(f.PullSecrets) == 0 || b.now.Before(im.trouble.until))
}

// retell tells the world of an image if something else is the case with it than it was told.
func (b *books) retell(im *image) {
	if alone := b.byPodsAlone(im); im.known && alone != im.byPods {
		im.byPods = alone
		b.tellImage(im)
	}
}

// tellImage tells the world of an image.
func (b *books) tellImage(im *image) {
	b.must(world.ArtifactKnown{Name: im.name, Sort: im.sort, Size: im.size, ByPods: im.byPods})
}

// giveUp leaves an image alone for a while. Pods that wait for it go on.
func (b *books) giveUp(im *image) {
	im.trouble.again(b.now)
	b.fetching.barred[im] = true
	b.retell(im)
	b.stirred = true
}

// fetch carries out a decision to fetch an image. What is not carried out the next review
// decides again, if it is still worth it.
func (b *books) fetch(v *cluster.View, d *decision.Decision, line []decision.Waiting) {
	f, node, image := &b.fetching, v.Node(d.Prefetch.Node).Spec.Name, v.Artifact(d.Prefetch.Artifact).Name
	key := f.podFor(node, image)
	most := mostFetches
	if d.Prefetch.Urgent {
		most = mostUrgent
	}
	switch {
	case f.Prefetching == nil, f.fetches[key] != nil, len(f.fetches) >= most, !b.fetchable(b.caches.images[image]):
		return
	case d.Prefetch.Urgent && !awaited(v, d.Prefetch, line):
		return // the kubelet pulls it already, for a pod that has its place
	}
	if err := b.apply(world.Acceptance([]decision.Decision{*d})); err != nil {
		b.log.Warn("a decision is not accepted", "because", err)
		return
	}
	until := b.fetchTime(d.Prefetch.Node, d.Prefetch.Artifact)
	f.fetches[key] = &fetch{node: node, image: image, until: b.now.Add(until)}
	f.dueFetches = append(f.dueFetches, FetchOrder{Key: key, Node: node, Image: image, Decision: strconv.FormatUint(d.ID, 16), Until: until})
}

// awaited says whether somebody in line waits for what is fetched to a node.
func awaited(v *cluster.View, f *cluster.Prefetch, line []decision.Waiting) bool {
	return slices.ContainsFunc(line, func(w decision.Waiting) bool {
		return w.Why.Code == decision.Fetching && w.Why.Domain.Node == f.Node && slices.Contains(v.Pod(w.Pod).Spec.Artifacts, f.Artifact)
	})
}

// fetchTime is how long a fetch may take.
func (b *books) fetchTime(node cluster.NodeID, artifact cluster.ArtifactID) time.Duration {
	v := b.world.View()
	takes := v.Node(node).Cache.Takes(v.Artifact(artifact))
	return max(fetchPatience, min(fetchSlack*time.Duration(takes/moment.Millisecond)*time.Millisecond, longestBar))
}

// fetchSeen takes in what a pod of ours that fetches an image has come to.
func (b *books) fetchSeen(key string, seen *facts.Pod) {
	f, p := &b.fetching, seen.Prefetch
	if f.Prefetching == nil || p == nil || p.Scheduler != f.scheduler || key != f.podFor(seen.Node, p.Image) {
		return
	}
	one := f.fetches[key]
	switch {
	case seen.Leaving:
		if one != nil && !one.ended {
			b.endFetch(key, one, "its pod was deleted")
		}
		return
	case one == nil && !f.synced:
		f.found[key] = seen.UID
		return
	case one == nil:
		if one = b.adoptFetch(key, seen); one == nil {
			f.order(key, &fetch{uid: seen.UID, ended: true}, b.now)
			return
		}
	}
	one.uid = seen.UID
	switch {
	case one.ended:
	case seen.Running:
		b.timed(b.caches.images[one.image], seen.Started)
		b.endFetch(key, one, "")
	case p.Trouble != "":
		b.endFetch(key, one, p.Trouble)
	}
}

// timed learns from how long a fetch took how much a node fetches per second.
func (b *books) timed(im *image, began moment.Instant) {
	f, took := &b.fetching, b.instant().Since(began)
	if began == 0 || took < moment.Second || im.size < timedFrom {
		return
	}
	rate := quantity.Bytes(quantity.MulDiv(int64(im.size), int64(moment.Second), int64(took)))
	f.rates = append(f.rates, min(max(rate, leastRate), mostRate))
	f.rates = f.rates[max(0, len(f.rates)-ratesKept):]
	middle := slices.Sorted(slices.Values(f.rates))[len(f.rates)/2]
	if len(f.rates) < ratesFrom || middle*4 <= b.caches.Rate*5 && middle*5 >= b.caches.Rate*4 {
		return
	}
	b.log.Info("nodes fetch images at another rate", "bytes per second", middle, "before", b.caches.Rate)
	b.caches.Rate = middle
	for _, node := range slices.Sorted(maps.Keys(b.caches.on)) {
		b.stock(node)
	}
}

// fetchGone takes in that such a pod is gone, or has ended.
func (b *books) fetchGone(key string) {
	delete(b.fetching.found, key)
	if one := b.fetching.fetches[key]; one != nil && !one.ended {
		b.endFetch(key, one, "its pod came to an end")
	}
}

// adoptFetch goes on with what an instance before has begun; nil where that is of no use.
func (b *books) adoptFetch(key string, seen *facts.Pod) *fetch {
	f, p := &b.fetching, seen.Prefetch
	im, c := b.caches.images[p.Image], b.cacheOf(seen.Node)
	decided, err := strconv.ParseUint(p.Decision, 16, 64)
	if err != nil || c == nil || !b.fetchable(im) || len(f.fetches) >= mostUrgent {
		return nil
	}
	artifact, _ := b.world.Artifact(p.Image)
	if c.Find(artifact) >= 0 {
		return nil // it has come
	}
	e := world.PrefetchRecalled{Node: seen.Node, Artifact: p.Image, ID: decided, Since: moment.Instant(max(p.Made.UnixMicro(), 0))}
	if err := b.apply(e); err != nil {
		b.log.Warn("a prefetch of an instance before is not gone on with", "node", seen.Node, "image", p.Image, "because", err)
		return nil
	}
	node, _ := b.world.Node(seen.Node)
	one := &fetch{node: seen.Node, image: p.Image, uid: seen.UID, until: b.now.Add(b.fetchTime(node, artifact))}
	f.fetches[key] = one
	return one
}

// adoptFetches looks at the pods of an instance before, once all that was there is told.
func (b *books) adoptFetches() {
	f := &b.fetching
	f.synced = true
	for _, key := range slices.Sorted(maps.Keys(f.found)) {
		if p := b.pods[key]; p != nil && p.seen.UID == f.found[key] {
			b.fetchSeen(key, &p.seen)
		}
	}
	clear(f.found)
}

// endFetch ends a fetch: the image has come, or will not, for a reason. Its pod goes.
func (b *books) endFetch(key string, one *fetch, why string) {
	artifact, _ := b.world.Artifact(one.image)
	im := b.caches.images[one.image]
	awaited := b.cacheOf(one.node).Awaits(artifact) >= 0
	switch {
	case why == "":
		b.fetching.arrived[one.node+" "+one.image] = b.now
		if awaited {
			b.must(world.PrefetchDone{Node: one.node, Artifact: one.image})
		}
	default:
		if awaited {
			b.must(world.PrefetchFailed{Node: one.node, Artifact: one.image})
		}
		b.giveUp(im)
	}
	b.stirred = true // a pod may have waited for it
	one.ended = true
	b.fetching.fetched = append(b.fetching.fetched, Fetched{Node: one.node, Image: one.image, Size: im.size, Why: why})
	b.fetching.order(key, one, b.now)
}

// order has a pod deleted.
func (f *fetching) order(key string, one *fetch, now time.Time) {
	f.fetches[key], one.asked = one, now
	f.dueFetches = append(f.dueFetches, FetchOrder{Key: key, UID: one.uid, Delete: true})
}

// fetchOrdered takes in what became of an order. Who made a pod of that name before is told
// of by the informers.
func (b *books) fetchOrdered(o *FetchOrder, uid string, err error) {
	one := b.fetching.fetches[o.Key]
	switch {
	case one == nil:
	case o.Delete && err == nil:
		delete(b.fetching.fetches, o.Key)
	case o.Delete:
		one.asked = time.Time{}
	case err == nil:
		one.uid = uid
	case !one.ended:
		b.endFetch(o.Key, one, err.Error())
	}
}

// watchFetches ends what takes too long, and has pods deleted again that were not.
func (b *books) watchFetches() {
	f := &b.fetching
	for _, key := range slices.Sorted(maps.Keys(f.fetches)) {
		one := f.fetches[key]
		switch {
		case !one.ended && b.now.After(one.until):
			b.endFetch(key, one, "it took too long")
		case one.ended && one.asked.IsZero():
			one.asked = b.now
		case one.ended && b.now.Sub(one.asked) >= deleteAgain:
			f.order(key, one, b.now)
		}
	}
	var again []*image
	for im := range f.barred { // order: sorted below
		if !b.now.Before(im.trouble.until) {
			again = append(again, im)
			delete(f.barred, im)
		}
	}
	slices.SortFunc(again, func(x, y *image) int { return strings.Compare(x.name, y.name) })
	for _, im := range again {
		b.retell(im)
	}
	for key, at := range f.arrived { // order: each by itself
		if b.now.Sub(at) >= keptFor {
			delete(f.arrived, key)
		}
	}
}

// takeFetches returns the orders that are due, and what has ended.
func (b *books) takeFetches() (orders []FetchOrder, ended []Fetched) {
	f := &b.fetching
	orders, ended = f.dueFetches, f.fetched
	f.dueFetches, f.fetched = nil, nil
	return orders, ended
}
