package world

import (
	"cmp"
	"slices"
	"strings"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
)

// society is who is who: the labels of pods and namespaces, the crowds that
// relations go by, and the kins that follow.
type society struct {
	people     []person // by pod id
	namespaces map[cluster.Symbol]namespace
	crowds     []crowd           // by crowd id
	asked      []cluster.CrowdID // the crowds that some pod's relations go by, sorted
	byKey      map[uint64]cluster.CrowdID
	kins       map[uint64]cluster.KinID
}

// person is what relations may ask of a pod, and what it asks of others.
type person struct {
	gone      bool
	namespace cluster.Symbol
	labels    []cluster.Label // sorted by key
	wants     *cluster.Kin    // without its crowds; nil for one that wants nothing
}

type namespace struct {
	known  bool
	labels []cluster.Label
}

// crowd is what picks the pods of one: all of its selectors do.
type crowd struct {
	selectors []selector
	// doubtful says that a pod belongs whose namespace is not known.
	doubtful bool
	// users counts the relations that go by it. Without any, nobody asks who
	// belongs, and what pods are said to belong may be out of date.
	users int
}

// selector is a PodSelector with names interned.
type selector struct {
	namespaces []cluster.Symbol // sorted
	byLabels   bool
	where      []cluster.Requirement
	labels     []cluster.Requirement
	nobody     bool
}

func newSociety() society {
	return society{
		namespaces: make(map[cluster.Symbol]namespace), byKey: make(map[uint64]cluster.CrowdID),
		kins: make(map[uint64]cluster.KinID),
	}
}

// person returns what is known of a pod.
func (w *World) person(id cluster.PodID) person {
	if int(id) < len(w.society.people) {
		return w.society.people[id]
	}
	return person{}
}

// know remembers who a pod is.
func (w *World) know(id cluster.PodID, who person) {
	for int(id) >= len(w.society.people) {
		w.society.people = append(w.society.people, person{gone: true})
	}
	w.society.people[id] = who
}

func (w *World) labels(given map[string]string) []cluster.Label {
	var out []cluster.Label
	for _, key := range sortedKeys(given) {
		out = append(out, cluster.Label{Key: w.Symbol(key), Value: w.Symbol(given[key])})
	}
	slices.SortFunc(out, func(a, b cluster.Label) int { return cmp.Compare(a.Key, b.Key) })
	return out
}

// personOf interns what a new pod is and wants, making the crowds it names.
func (w *World) personOf(e *PodAdded) person {
	who := person{namespace: w.Symbol(e.Namespace), labels: w.labels(e.Labels)}
	wants := cluster.Kin{Near: cluster.Near{Crowd: cluster.None}}
	for i := range e.Ports {
		wants.Ports = append(wants.Ports, w.port(&e.Ports[i]))
	}
	if len(e.Near) > 0 {
		wants.Near = w.near(e)
	}
	for i := range e.Apart {
		t := &e.Apart[i]
		of := w.selector(&t.Of, e.Namespace)
		text := w.selectorText(&of)
		wants.Apart = append(wants.Apart, cluster.Apart{
			Crowd: w.crowd([]selector{of}, true), Topology: w.Symbol(t.Topology), Text: w.Symbol(t.Topology + " with " + text),
		})
	}
	for i := range e.Spread {
		wants.Spread = append(wants.Spread, w.spread(&e.Spread[i], e.Namespace, &who))
	}
	if wants.Wants() {
		who.wants = &wants
	}
	return who
}

func (w *World) near(e *PodAdded) cluster.Near {
	var out cluster.Near
	var all []selector
	var topologies, texts []string
	for i := range e.Near {
		t := &e.Near[i]
		of := w.selector(&t.Of, e.Namespace)
		all = append(all, of)
		texts = append(texts, w.selectorText(&of))
		topologies = append(topologies, t.Topology)
		if topology := w.Symbol(t.Topology); !slices.Contains(out.Topologies, topology) {
			out.Topologies = append(out.Topologies, topology)
		}
	}
	out.Crowd = w.crowd(all, false)
	out.Text = w.Symbol(strings.Join(slices.Compact(topologies), " and ") + " with " + strings.Join(slices.Compact(texts), " that are "))
	return out
}

func (w *World) spread(s *Spread, own string, who *person) cluster.Spread {
	of := w.selector(&PodSelector{Labels: s.Labels, Nobody: s.Nobody}, own)
	out := cluster.Spread{
		Crowd: cluster.None, Topology: w.Symbol(s.Topology), MaxSkew: s.MaxSkew, MinDomains: max(s.MinDomains, 1),
		Self: w.picks(&of, who, false), AllNodes: s.AllNodes, Taints: s.Taints,
		Text: w.Symbol(w.selectorText(&of) + " over " + s.Topology),
	}
	// As in Kubernetes, a selector without conditions counts none of those that are
	// there, and yet the pod itself.
	if len(of.labels) > 0 && !of.nobody {
		out.Crowd = w.crowd([]selector{of}, false)
	}
	return out
}

func (w *World) selector(s *PodSelector, own string) selector {
	out := selector{byLabels: s.ByLabels, where: w.conditions(s.Where), labels: w.conditions(s.Labels), nobody: s.Nobody}
	for _, name := range s.Namespaces {
		out.namespaces = append(out.namespaces, w.Symbol(name))
	}
	if len(s.Namespaces) == 0 && !s.ByLabels {
		out.namespaces = []cluster.Symbol{w.Symbol(own)}
	}
	slices.Sort(out.namespaces)
	out.namespaces = slices.Compact(out.namespaces)
	return out
}

func (w *World) conditions(list []Requirement) []cluster.Requirement {
	var out []cluster.Requirement
	for i := range list {
		r := cluster.Requirement{Key: w.Symbol(list[i].Key), Op: list[i].Op}
		for _, value := range list[i].Values {
			r.Values = append(r.Values, w.Symbol(value))
		}
		out = append(out, r)
	}
	return out
}

// crowd interns a crowd for one more relation. With the first, those who belong
// become of another kin.
func (w *World) crowd(selectors []selector, doubtful bool) cluster.CrowdID {
	c := crowd{selectors: selectors, doubtful: doubtful}
	key, text := w.crowdKey(&c), make([]string, len(selectors))
	id, known := w.society.byKey[key]
	if !known {
		for i := range selectors {
			text[i] = w.selectorText(&selectors[i])
		}
		id = w.ledger.AddCrowd(cluster.Crowd{Key: key, Text: w.Symbol(strings.Join(text, " that are "))})
		w.society.byKey[key] = id
		w.society.crowds = append(w.society.crowds, c)
	}
	own := &w.society.crowds[id]
	own.users++
	if own.users > 1 {
		return id
	}
	at, _ := slices.BinarySearch(w.society.asked, id)
	w.society.asked = slices.Insert(w.society.asked, at, id)
	for i := range w.society.people {
		who := &w.society.people[i]
		if !who.gone && w.belongs(&c, who) != w.isIn(cluster.PodID(i), id) {
			w.ledger.SetKin(cluster.PodID(i), w.kinOf(who))
		}
	}
	return id
}

// isIn says whether a pod is said to belong to a crowd.
func (w *World) isIn(pod cluster.PodID, id cluster.CrowdID) bool {
	kin := w.ledger.Pod(pod).Kin
	return kin != 0 && w.ledger.Kin(kin).In(id)
}

// forget drops what is known of a pod that is gone, and the crowds that only its
// relations went by.
func (w *World) forget(id cluster.PodID) {
	who := w.person(id)
	w.know(id, person{gone: true})
	if who.gone || who.wants == nil {
		return
	}
	w.release(who.wants.Near.Crowd)
	for i := range who.wants.Apart {
		w.release(who.wants.Apart[i].Crowd)
	}
	for i := range who.wants.Spread {
		w.release(who.wants.Spread[i].Crowd)
	}
}

func (w *World) release(id cluster.CrowdID) {
	if id == cluster.None {
		return
	}
	own := &w.society.crowds[id]
	if own.users--; own.users > 0 {
		return
	}
	if at, found := slices.BinarySearch(w.society.asked, id); found {
		w.society.asked = slices.Delete(w.society.asked, at, at+1)
	}
}

// rejudge tells the pods of a namespace to which crowds they belong now.
func (w *World) rejudge(name cluster.Symbol) {
	for i := range w.society.people {
		if who := &w.society.people[i]; !who.gone && who.namespace == name {
			w.ledger.SetKin(cluster.PodID(i), w.kinOf(who))
		}
	}
}

// kinOf interns how a pod stands to others; 0 for one that nobody looks at and
// that looks at nobody.
func (w *World) kinOf(who *person) cluster.KinID {
	var crowds []cluster.CrowdID
	for _, id := range w.society.asked {
		if w.belongs(&w.society.crowds[id], who) {
			crowds = append(crowds, id)
		}
	}
	if len(crowds) == 0 && who.wants == nil {
		return 0
	}
	kin := cluster.Kin{Near: cluster.Near{Crowd: cluster.None}}
	if who.wants != nil {
		kin = *who.wants
	}
	kin.Crowds = crowds
	for i := range kin.Spread {
		self := kin.Spread[i].Crowd == cluster.None && kin.Spread[i].Self || kin.Spread[i].Crowd != cluster.None && kin.In(kin.Spread[i].Crowd)
		if self != kin.Spread[i].Self {
			kin.Spread = slices.Clone(kin.Spread)
			kin.Spread[i].Self = self
		}
	}
	kin.Key = w.kinKey(&kin)
	if id, known := w.society.kins[kin.Key]; known {
		return id
	}
	id := w.ledger.AddKin(kin)
	w.society.kins[kin.Key] = id
	return id
}

func (w *World) kinKey(k *cluster.Kin) uint64 {
	crowdKey := func(c cluster.CrowdID) uint64 {
		if c == cluster.None {
			return 0
		}
		return w.ledger.Crowds.At(int32(c)).Key
	}
	sum := uint64(0)
	for _, c := range k.Crowds {
		sum += chance.Mix(crowdKey(c))
	}
	h := chance.Hash(sum, crowdKey(k.Near.Crowd))
	for _, t := range k.Near.Topologies {
		h = chance.Hash(h, 1, w.symbolKey(t))
	}
	for _, p := range k.Ports {
		h = chance.Hash(h, 2, w.symbolKey(p.IP), w.symbolKey(p.Protocol), uint64(p.Number))
	}
	for _, a := range k.Apart {
		h = chance.Hash(h, 3, crowdKey(a.Crowd), w.symbolKey(a.Topology))
	}
	for i := range k.Spread {
		s := &k.Spread[i]
		flags := uint64(0)
		for bit, set := range []bool{s.Self, s.AllNodes, s.Taints} {
			if set {
				flags |= 1 << bit
			}
		}
		h = chance.Hash(h, 4, crowdKey(s.Crowd), w.symbolKey(s.Topology), w.symbolKey(s.Text), uint64(s.MaxSkew), uint64(s.MinDomains), flags)
	}
	return h
}

func (w *World) symbolKey(s cluster.Symbol) uint64 {
	return chance.HashString(w.interner.Symbols().Text(s))
}

func (w *World) crowdKey(c *crowd) uint64 {
	h := chance.Hash(0)
	if c.doubtful {
		h = chance.Hash(1)
	}
	conditions := func(list []cluster.Requirement) {
		for i := range list {
			h = chance.Hash(h, 5, w.symbolKey(list[i].Key), uint64(list[i].Op))
			for _, value := range list[i].Values {
				h = chance.Fold(h, w.symbolKey(value))
			}
		}
	}
	for i := range c.selectors {
		s := &c.selectors[i]
		flags := uint64(0)
		if s.byLabels {
			flags |= 1
		}
		if s.nobody {
			flags |= 2
		}
		names := uint64(0)
		for _, name := range s.namespaces {
			names += chance.Mix(w.symbolKey(name))
		}
		h = chance.Hash(h, 6, flags, names)
		conditions(s.where)
		h = chance.Hash(h, 7)
		conditions(s.labels)
	}
	return h
}

// belongs says whether all selectors of a crowd pick a pod.
func (w *World) belongs(c *crowd, who *person) bool {
	for i := range c.selectors {
		if !w.picks(&c.selectors[i], who, c.doubtful) {
			return false
		}
	}
	return true
}

func (w *World) picks(s *selector, who *person, doubtful bool) bool {
	if s.nobody {
		return false
	}
	if _, named := slices.BinarySearch(s.namespaces, who.namespace); !named {
		if !s.byLabels {
			return false
		}
		ns := w.society.namespaces[who.namespace]
		if len(s.where) > 0 && !ns.known && !doubtful || ns.known && !meetAll(s.where, ns.labels) {
			return false
		}
	}
	return meetAll(s.labels, who.labels)
}

func meetAll(list []cluster.Requirement, labels []cluster.Label) bool {
	for i := range list {
		at, has := slices.BinarySearchFunc(labels, list[i].Key, func(l cluster.Label, key cluster.Symbol) int { return cmp.Compare(l.Key, key) })
		ok := has
		switch list[i].Op {
		case cluster.OpAbsent:
			ok = !has
		case cluster.OpIn, cluster.OpNotIn:
			ok = (has && slices.Contains(list[i].Values, labels[at].Value)) == (list[i].Op == cluster.OpIn)
		}
		if !ok {
			return false
		}
	}
	return true
}

// maxText bounds how much of a selector a reason repeats.
const maxText = 120

// selectorText says which pods a selector picks: "pods app=db in default".
func (w *World) selectorText(s *selector) string {
	text := w.interner.Symbols().Text
	say := func(list []cluster.Requirement) string {
		var parts []string
		for i := range list {
			r := &list[i]
			var values []string
			for _, value := range r.Values {
				values = append(values, text(value))
			}
			key, among := text(r.Key), strings.Join(values, "|")
			parts = append(parts, [...]string{cluster.OpIn: key + "=" + among, cluster.OpNotIn: key + "!=" + among, cluster.OpExists: key, cluster.OpAbsent: "!" + key}[r.Op])
		}
		return strings.Join(parts, ",")
	}
	out := "pods"
	switch {
	case s.nobody:
		return "no pods"
	case len(s.labels) > 0:
		out += " " + say(s.labels)
	}
	var names []string
	for _, name := range s.namespaces {
		if name != 0 {
			names = append(names, text(name))
		}
	}
	switch {
	case s.byLabels && len(s.where) > 0:
		names = append(names, "namespaces "+say(s.where))
	case s.byLabels:
		names = append(names, "any namespace")
	}
	if len(names) > 0 {
		out += " in " + strings.Join(names, "|")
	}
	if len(out) > maxText {
		out = strings.ToValidUTF8(out[:maxText], "") + "…"
	}
	return out
}
