package kube

import (
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/headrace-dev/headrace/internal/core/decision"

	"github.com/headrace-dev/headrace/live/kube/facts"
)

// Trial places pods as a Scheduler does, by the same books and the same engine,
// without a cluster: objects are told to it, binds come back as values. Nothing
// happens by itself, and its clock stands still between calls of Pass.
type Trial struct {
	config Config
	books  *books
	now    time.Time
}

// NewTrial returns a trial that knows nothing. Of the configuration it heeds what
// decides: name, policy and resource of the cards.
func NewTrial(c Config) *Trial {
	c = New(c).config
	t := &Trial{config: c, books: newBooks(c.Policy, slog.New(slog.DiscardHandler)), now: time.Unix(0, 0)}
	t.books.caches = newCaches(t.config.Caching)
	t.Pass(0)
	_ = t.books.promise(c.SLAs) // what cannot be is refused where it is read
	return t
}

// Pass lets time go by; pauses that end are over.
func (t *Trial) Pass(d time.Duration) {
	t.now = t.now.Add(d)
	t.books.tick(t.now)
	t.books.resume()
}

// NodeIs tells what a node is now.
func (t *Trial) NodeIs(n *corev1.Node) {
	f := facts.NodeOf(n, t.config.GPU, t.config.Levels)
	t.books.nodeSeen(f)
	t.books.imagesSeen(&f)
}

// NodeGone tells that a node is deleted.
func (t *Trial) NodeGone(name string) { t.books.nodeGone(name) }

// NamespaceIs tells the labels of a namespace.
func (t *Trial) NamespaceIs(n *corev1.Namespace) { t.books.namespaceSeen(n.Name, n.Labels) }

// PodIs tells what a pod is now.
func (t *Trial) PodIs(p *corev1.Pod) {
	t.books.podSeen(facts.Key(p), facts.PodOf(p, t.config.Name, t.config.GPU))
}

// PodGone tells that a pod is deleted.
func (t *Trial) PodGone(key string) { t.books.podGone(key) }

// Decide runs one cycle. What it returns is charged, and Done is due for each.
func (t *Trial) Decide() []Bind { return t.books.decide(decision.CycleArrival) }

// Done tells what became of a bind.
func (t *Trial) Done(o Outcome) { t.books.outcome(&o) }

// Standing is how a pod stands, in the words that it would be told.
type Standing struct {
	Says string
	// Unjudged says that the pod asks for something that is not placed yet.
	Unjudged bool
}

// Standing returns why a pod is not placed; empty for one that is, or that does
// not wait.
func (t *Trial) Standing(key string) Standing {
	p := t.books.pods[key]
	if p == nil {
		return Standing{}
	}
	said, _ := t.books.said(p)
	return Standing{Says: said.sentence, Unjudged: p.seen.Standing == facts.Held && p.seen.Why != "" || p.unlooked() && !t.books.exclusions.judged}
}

// Holds says whether room is kept for pods until others have left.
func (t *Trial) Holds() bool { return len(t.books.holds) > 0 }

// Audit recomputes every account, and says where they differ.
func (t *Trial) Audit() error { return t.books.audit() }
