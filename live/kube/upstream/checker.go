package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"
)

// Checker keeps a snapshot of nodes and charged pods, and asks the filters about
// it. It has one owner.
type Checker struct {
	ctx      context.Context
	snapshot *snapshot
	plugins  []plugin
	binder   *volumebinding.VolumeBinding
	ask      struct{ every, volumes uint64 } // sets of plugins, by position
	pods     map[string]*pod
	at       map[string]map[string]*pod // charged pods by the node that they name, known or not
}

// pod is what is known of one.
type pod struct {
	told    *corev1.Pod
	charged *corev1.Pod // told, or a copy with the node it is promised to; nil: not charged
}

// New returns a checker that knows no node and no pod. What it reads of volumes
// and namespaces comes from informers that it registers with the factory; the
// caller starts them. The context ends what upstream's framework runs beside.
func New(ctx context.Context, client kubernetes.Interface, all informers.SharedInformerFactory) (*Checker, error) {
	return newChecker(ctx, client, all, nil)
}

func newChecker(ctx context.Context, client kubernetes.Interface, all informers.SharedInformerFactory, devices fwk.SharedDRAManager) (*Checker, error) {
	s := newSnapshot()
	plugins, binder, err := newPlugins(ctx, client, all, s, devices)
	if err != nil {
		return nil, err
	}
	c := &Checker{ctx: ctx, snapshot: s, plugins: plugins, binder: binder, pods: make(map[string]*pod), at: make(map[string]map[string]*pod)}
	for i := range plugins {
		c.ask.every |= 1 << i
		if plugins[i].volumes {
			c.ask.volumes |= 1 << i
		}
	}
	return c, nil
}

// NodeIs takes in what a node is; nil for one that is gone.
func (c *Checker) NodeIs(name string, node *corev1.Node) {
	if node == nil {
		c.snapshot.dropNode(name)
		return
	}
	if !c.snapshot.putNode(node) {
		return
	}
	for _, p := range c.at[name] { // order: sums and sets
		c.snapshot.charge(p.charged)
	}
}

// PodIs takes in what a pod is; nil for one that is gone. A promise made for it
// stands until it is told as bound, gone or another pod.
func (c *Checker) PodIs(key string, is *corev1.Pod) {
	p := c.pods[key]
	if is == nil || is.Status.Phase == corev1.PodSucceeded || is.Status.Phase == corev1.PodFailed {
		if p != nil {
			c.uncharge(key, p)
			delete(c.pods, key)
		}
		return
	}
	if p == nil {
		p = new(pod)
		c.pods[key] = p
	}
	another := p.told != nil && p.told.UID != is.UID
	p.told = is
	if p.charged != nil && asPromised(p.charged, is) {
		return
	}
	if is.Spec.NodeName != "" || another {
		c.uncharge(key, p)
	}
	if is.Spec.NodeName != "" {
		c.charge(key, p, is)
	}
}

// asPromised says whether a pod is bound as it is charged, so that it need not be
// counted again: the same pod on the same node, with nothing that came later in its
// specification, its labels or from its node.
func asPromised(charged, is *corev1.Pod) bool {
	return is.Spec.NodeName == charged.Spec.NodeName && is.UID == charged.UID && is.Generation == charged.Generation && is.Generation > 0 &&
		is.DeletionTimestamp == nil && charged.DeletionTimestamp == nil && maps.Equal(is.Labels, charged.Labels) &&
		len(is.Status.ContainerStatuses)+len(charged.Status.ContainerStatuses) == 0
}

func (c *Checker) charge(key string, p *pod, as *corev1.Pod) {
	p.charged = as
	node := as.Spec.NodeName
	if c.at[node] == nil {
		c.at[node] = make(map[string]*pod)
	}
	c.at[node][key] = p
	c.snapshot.charge(as)
}

func (c *Checker) uncharge(key string, p *pod) {
	if p.charged == nil {
		return
	}
	c.snapshot.discharge(p.charged)
	node := p.charged.Spec.NodeName
	delete(c.at[node], key)
	if len(c.at[node]) == 0 {
		delete(c.at, node)
	}
	p.charged = nil
}

// Reserve charges a pod to a node, and the volumes that it needs there to the pod,
// if the filters agree. Volumes that are still to be bound or made are asked for by
// the function that it returns, which waits until they are there and gives back what
// is not. It must be called, and may run beside everything else.
func (c *Checker) Reserve(key, node string) (prepare func(context.Context) error, err error) {
	p := c.pods[key]
	if p == nil {
		return nil, fmt.Errorf("pod %s is not known", key)
	}
	c.Release(key)
	n, known := c.snapshot.nodes[node]
	if !known {
		return nil, fmt.Errorf("node %s is not known", node)
	}
	t := c.prepare(p.told, c.ask.every)
	if why := t.ask(p.told, n); why != "" {
		return nil, errors.New(why)
	}
	promised := *p.told // shallow: only the node differs, and nothing of it is written
	promised.Spec.NodeName = node
	if prepare, err = c.reserveVolumes(&t, &promised); err != nil {
		return nil, err
	}
	c.charge(key, p, &promised)
	return prepare, nil
}

// reserveVolumes promises a pod the volumes that the filter found for it. What has
// been written to the API server is not undone: such a volume is the pod's, wherever
// it goes.
func (c *Checker) reserveVolumes(t *trial, promised *corev1.Pod) (func(context.Context) error, error) {
	node := promised.Spec.NodeName
	if s := c.binder.Reserve(c.ctx, t.state, promised, node); !s.IsSuccess() {
		return nil, errors.New(says(c.binder.Name(), s))
	}
	if _, s := c.binder.PreBindPreFlight(c.ctx, t.state, promised, node); s.IsSkip() {
		return nil, nil
	}
	state := t.state
	return func(ctx context.Context) error {
		if s := c.binder.PreBind(ctx, state, promised, node); !s.IsSuccess() {
			c.binder.Unreserve(ctx, state, promised, node)
			return errors.New(says(c.binder.Name(), s))
		}
		return nil
	}, nil
}

// Release takes a promise back: the pod was not bound after all.
func (c *Checker) Release(key string) {
	if p := c.pods[key]; p != nil && p.told.Spec.NodeName == "" {
		c.uncharge(key, p)
	}
}

// Barred returns the nodes that the volumes of a pod rule out and, when these are
// all there are, why.
func (c *Checker) Barred(key string) (nodes []string, why string) {
	p := c.pods[key]
	if p == nil {
		return nil, ""
	}
	t := c.prepare(p.told, c.ask.volumes)
	first := ""
	for _, n := range c.snapshot.all.list {
		if says := t.ask(p.told, n); says != "" {
			nodes = append(nodes, n.Node().Name)
			first = cmp.Or(first, says)
		}
	}
	if len(nodes) < len(c.snapshot.all.list) {
		first = ""
	}
	slices.Sort(nodes)
	return nodes, first
}

// Verdict says whether the filters let a pod onto a node as things are, and if
// not, which one says what.
func (c *Checker) Verdict(is *corev1.Pod, node string) (ok bool, why string) {
	n, known := c.snapshot.nodes[node]
	if !known {
		return false, "node " + node + " is not known"
	}
	t := c.prepare(is, c.ask.every)
	why = t.ask(is, n)
	return why == "", why
}

// Feasible returns the nodes that the filters let a pod onto, by name.
func (c *Checker) Feasible(is *corev1.Pod) []string {
	t := c.prepare(is, c.ask.every)
	var out []string
	for _, n := range c.snapshot.all.list {
		if t.ask(is, n) == "" {
			out = append(out, n.Node().Name)
		}
	}
	slices.Sort(out)
	return out
}

// trial is one pod before the filters.
type trial struct {
	*Checker
	state   fwk.CycleState
	skipped uint64 // by position in plugins
	nodes   *fwk.PreFilterResult
	namer   string // the filter that narrowed nodes last
	refusal string // on every node
}

// prepare lets each filter of a set look at a pod once.
func (c *Checker) prepare(is *corev1.Pod, set uint64) trial {
	t := trial{Checker: c, state: framework.NewCycleState(), skipped: ^set}
	for i := range c.plugins {
		p := &c.plugins[i]
		if p.prepare == nil || t.skipped&(1<<i) != 0 {
			continue
		}
		nodes, status := p.prepare.PreFilter(c.ctx, t.state, is, c.snapshot.all.list)
		switch {
		case status.IsSkip():
			t.skipped |= 1 << i
		case !status.IsSuccess():
			t.refusal = says(p.name, status)
			return t
		case !nodes.AllNodes():
			t.nodes, t.namer = t.nodes.Merge(nodes), p.name
		}
	}
	return t
}

// ask returns why a node is refused; empty when it is not.
func (t *trial) ask(is *corev1.Pod, n fwk.NodeInfo) string {
	if t.refusal != "" {
		return t.refusal
	}
	if !t.nodes.AllNodes() && !t.nodes.NodeNames.Has(n.Node().Name) {
		return t.namer + ": the pod names other nodes"
	}
	for i := range t.plugins {
		if t.skipped&(1<<i) != 0 {
			continue
		}
		if status := t.plugins[i].filter.Filter(t.ctx, t.state, is, n); !status.IsSuccess() {
			return says(t.plugins[i].name, status)
		}
	}
	return ""
}

func says(filter string, s *fwk.Status) string { return filter + ": " + s.Message() }
