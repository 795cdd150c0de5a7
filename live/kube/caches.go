package kube

import (
	"slices"
	"time"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/core/rank"
	"github.com/headrace-dev/headrace/internal/core/warm"
	"github.com/headrace-dev/headrace/internal/world"

	"github.com/headrace-dev/headrace/live/explain"
	"github.com/headrace-dev/headrace/live/kube/facts"
)

// Caching says what is made of the images that nodes have.
type Caching struct {
	// Off has pods placed as if nobody knew.
	Off bool
	// Dense has pods go to cards that are in use rather than to those where they start
	// at once.
	Dense bool
	// Share is how much of its ephemeral storage a node keeps for images, in thousandths,
	// where it does not say so itself. 0: DefaultImageShare.
	Share quantity.Milli
	// Rate is how many bytes of an image a node pulls and unpacks per second. 0:
	// DefaultImageRate.
	Rate quantity.Bytes
}

const (
	// DefaultImageShare is a quarter. A kubelet begins to drop images when 85 % of the
	// file system are used (its imageGCHighThresholdPercent), and containerd tells the size
	// of an image as it is in the registry, compressed: with the unpacked copy beside it, it
	// takes about three times that.
	DefaultImageShare quantity.Milli = 250
	// DefaultImageRate is what unpacking comes to on one core, about 125 MB/s.
	DefaultImageRate quantity.Bytes = 125_000_000
	// mostWanted bounds the images that the world is told of: those that pods needed since
	// the scheduler started, and before as far as that is remembered.
	mostWanted = 20_000
	// mostNames bounds the names that are remembered.
	mostNames = 100_000
	// newlyCame is how long a node may take to list what was fetched to it: kubelets look
	// at their images every half minute and tell within ten seconds.
	newlyCame = 2 * time.Minute
)

// warms returns the policy with warm starts as they can be on Kubernetes: a kubelet pulls
// what a pod needs itself, one image after the other, and drops what it likes.
func (c *Config) warms(p *engine.Policy) *engine.Policy {
	switch {
	case p.Warms == nil:
		return p
	case c.Caching.Off:
		return p.Warming(&warm.Rules{})
	}
	rules := *p.Warms
	if c.Caching.Dense {
		rules = warm.Dense()
	}
	rules.Drops, rules.Ahead = false, c.Prefetch != nil
	rules.First = c.Prefetch != nil && c.Prefetch.First
	rules.Beside = rules.First // what is fetched for pods that wait
	return p.Warming(&rules)
}

// caches is the part of the books about images: which node lists which, and which of them
// pods of ours need. Of those the world is told, the others count for the room they take.
type caches struct {
	Caching
	images map[string]*image
	on     map[string]*shelf // by node
	wanted int
	// names are those that nodes write, with those that images have: to read one takes
	// microseconds, and nodes list many, most of them alike.
	names map[string]string
}

// image is what is known of one.
type image struct {
	name   string
	size   quantity.Bytes // as its teller has it; 0: nobody has told
	teller string         // the node; empty: it has gone, or what is known was remembered
	listed int            // by so many nodes
	sort   cluster.ArtifactSort
	// wanted says that a pod of ours needs it, or did; known that the world was told.
	wanted, known bool
	// private says that pods bring secrets to pull it with, local that they have it never
	// pulled.
	private, local bool
	byPods         bool // as the world was told
	trouble        trouble
}

// shelf is what a node lists.
type shelf struct {
	room  quantity.Bytes // for images
	full  bool           // the list may leave out smaller ones than the last
	least quantity.Bytes // the smallest that is listed
	rows  []row
}

// row is an image under all its names.
type row struct {
	names []*image
	size  quantity.Bytes
}

func newCaches(c Caching) caches {
	if c.Share == 0 {
		c.Share = DefaultImageShare
	}
	if c.Rate == 0 {
		c.Rate = DefaultImageRate
	}
	return caches{Caching: c, images: make(map[string]*image), on: make(map[string]*shelf), names: make(map[string]string)}
}

// nameOf is facts.ImageName, remembered.
func (c *caches) nameOf(text string) string {
	name, known := c.names[text]
	if known {
		return name
	}
	if name = facts.ImageName(text); name == "" {
		return ""
	}
	if len(c.names) >= mostNames {
		clear(c.names)
	}
	c.names[text] = name
	return name
}

// named returns an image by name.
func (c *caches) named(name string) *image {
	im := c.images[name]
	if im == nil {
		im = &image{name: name}
		c.images[name] = im
	}
	return im
}

// count notes that a list is in force, or is not any more.
func (c *caches) count(s *shelf, by int) {
	if s == nil {
		return
	}
	for i := range s.rows {
		for _, im := range s.rows[i].names {
			if im.listed += by; im.listed == 0 && !im.wanted {
				delete(c.images, im.name)
			}
		}
	}
}

// shelve reads what a node lists. A name that is listed twice counts the first time.
func (c *caches) shelve(f *facts.Node) *shelf {
	s := &shelf{room: f.Room, full: len(f.Images) >= facts.ListedImages}
	if s.room == 0 {
		s.room = quantity.Bytes(quantity.MulDiv(int64(f.Storage), int64(c.Share), int64(quantity.One)))
	}
	seen := make(map[string]bool)
	for i := range f.Images {
		r := row{size: f.Images[i].Size}
		for _, text := range f.Images[i].Names {
			if name := c.nameOf(text); name != "" && !seen[name] {
				seen[name] = true
				r.names = append(r.names, c.named(name))
			}
		}
		s.rows = append(s.rows, r)
		if s.least == 0 || r.size < s.least {
			s.least = r.size
		}
	}
	return s
}

// same says whether a node lists what it listed before.
func (s *shelf) same(old *shelf) bool {
	return old != nil && s.room == old.room && s.full == old.full &&
		slices.EqualFunc(s.rows, old.rows, func(a, b row) bool { return a.size == b.size && slices.Equal(a.names, b.names) })
}

// imagesSeen takes in which images a node says it has.
func (b *books) imagesSeen(f *facts.Node) {
	c, node := &b.caches, f.Added.Name
	if c.Off || b.nodes[node] == nil {
		return
	}
	next, old := c.shelve(f), c.on[node]
	c.count(next, 1)
	c.count(old, -1)
	c.on[node] = next
	if f.RoomFault != "" && !next.same(old) {
		b.log.Warn("what a node says of its room for images cannot be read", "node", node, "because", f.RoomFault)
	}
	if _, told := b.world.Node(node); !told || next.same(old) && (next.room == 0 || b.cacheOf(node) != nil) {
		return
	}
	c.unasked(old, node)
	for i := range next.rows {
		for _, im := range next.rows[i].names {
			b.sized(im, node, next.rows[i].size)
		}
	}
	b.stock(node)
	b.settleOrders()
}

// imagesGone forgets what a node listed that is gone.
func (b *books) imagesGone(node string) {
	b.caches.count(b.caches.on[node], -1)
	b.caches.unasked(b.caches.on[node], node)
	delete(b.caches.on, node)
}

// unasked notes that a node is not asked for sizes any more.
func (c *caches) unasked(s *shelf, node string) {
	if s == nil {
		return
	}
	for i := range s.rows {
		for _, im := range s.rows[i].names {
			if im.teller == node {
				im.teller = ""
			}
		}
	}
}

// sized takes in how large an image is. Runtimes count in different ways, so the first who
// told is asked for as long as it tells.
func (b *books) sized(im *image, node string, size quantity.Bytes) {
	if im.teller == "" || im.teller == node {
		changed := im.size != size
		im.size, im.teller = size, node
		if changed && im.known {
			b.tellImage(im)
		}
	}
	b.introduce(im)
}

// introduce tells the world of an image that is needed, as soon as its size is known, and
// of the nodes that have it. Who waits in line and needs it is settled anew.
func (b *books) introduce(im *image) {
	if im.known || !im.wanted || im.size == 0 {
		return
	}
	im.known, im.byPods = true, b.byPodsAlone(im)
	b.tellImage(im)
	var nodes, pods []string
	for node, s := range b.caches.on { // order: sorted below
		if slices.ContainsFunc(s.rows, func(r row) bool { return slices.Contains(r.names, im) }) {
			nodes = append(nodes, node)
		}
	}
	for key, p := range b.pods { // order: sorted below
		if p.footing == waiting && slices.ContainsFunc(p.seen.Needs, func(n facts.Need) bool { return n.Name == im.name }) {
			pods = append(pods, key)
		}
	}
	slices.Sort(nodes)
	for _, node := range nodes {
		b.stock(node)
	}
	slices.Sort(pods)
	b.resettle = append(b.resettle, pods...)
}

// cacheOf is what the world knows of a node's cache.
func (b *books) cacheOf(node string) *cluster.Cache {
	id, known := b.world.Node(node)
	if !known {
		return nil
	}
	return b.world.View().Node(id).Cache
}

// stock makes the world agree with what a node lists. Images that nobody of ours needs take
// from its room.
func (b *books) stock(node string) {
	s, v := b.caches.on[node], b.world.View()
	if _, told := b.world.Node(node); !told || s.room == 0 && b.cacheOf(node) == nil {
		return // nothing is known of its room: it counts as neither warm nor cold
	}
	there, disk := make(map[cluster.ArtifactID]string), s.room
	for i := range s.rows {
		needed := false
		for _, im := range s.rows[i].names {
			if im.known {
				needed = true
				id, _ := b.world.Artifact(im.name)
				there[id] = im.name
			}
		}
		if !needed {
			disk -= s.rows[i].size
		}
	}
	e, rate := world.CacheKnown{Node: node, Disk: max(disk, 0), Image: b.caches.Rate, Weights: b.caches.Rate}, [cluster.ArtifactSorts]quantity.Bytes{b.caches.Rate, b.caches.Rate}
	if c := b.cacheOf(node); c == nil || c.Disk != e.Disk || c.Rates != rate {
		b.must(e)
	}
	c, cached := b.cacheOf(node), world.NodeCached{Node: node}
	for i := range c.Held {
		a := v.Artifact(c.Held[i].Artifact)
		_, listed := there[c.Held[i].Artifact]
		if !listed && !(s.full && a.Size <= s.least) && !b.fetching.came(node, a.Name, b.now) {
			cached.Dropped = append(cached.Dropped, a.Name)
			b.notKept(node, a.Name)
		}
	}
	for id, name := range there { // order: sorted below
		if c.Find(id) < 0 {
			cached.Has = append(cached.Has, name)
		}
	}
	slices.Sort(cached.Has)
	if len(cached.Has)+len(cached.Dropped) > 0 {
		b.must(cached)
	}
}

// needed works out what a pod needs of what the world knows. An image whose size nobody
// has told yet is not looked at.
func (b *books) needed(p *pod) {
	p.seen.Added.Artifacts = nil
	for i := range p.seen.Needs {
		n := &p.seen.Needs[i]
		im := b.want(n)
		if im == nil {
			continue
		}
		im.private, im.local = im.private || n.Private, im.local || n.Local
		b.introduce(im)
		b.retell(im)
		if im.known {
			p.seen.Added.Artifacts = append(p.seen.Added.Artifacts, im.name)
		}
	}
}

// want returns an image that is needed; nil where there are too many, or none counts.
func (b *books) want(n *facts.Need) *image {
	c := &b.caches
	if c.Off {
		return nil
	}
	if im := c.images[n.Name]; im != nil && im.wanted {
		return im
	}
	if c.wanted == mostWanted {
		return nil
	}
	c.wanted++
	im := c.named(n.Name)
	im.wanted, im.sort = true, n.Sort
	return im
}

// imagesAt says of a pod that was placed which of the images that it needs its node had,
// and what that saved.
func imagesAt(v *cluster.View, d *decision.Decision, now moment.Instant) *explain.Images {
	needs := v.Pod(d.Pod).Spec.Artifacts
	wait, known := rank.Fetching(v, needs, d.Place.Node, false, now)
	if len(needs) == 0 || !known {
		return nil
	}
	seconds := func(s moment.Span) float64 { return float64(s) / float64(moment.Second) }
	out := &explain.Images{PullSeconds: seconds(wait), SavedSeconds: seconds(rank.Cold(v, needs, d.Place.Node, false) - wait)}
	for _, id := range needs {
		a := v.Artifact(id)
		out.Each = append(out.Each, explain.Image{
			Name: a.Name, Bytes: int64(a.Size), There: v.Node(d.Place.Node).Cache.Find(id) >= 0, Nodes: len(a.Nodes),
		})
	}
	return out
}
