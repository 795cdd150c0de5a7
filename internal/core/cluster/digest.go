package cluster

import "github.com/headrace-dev/headrace/internal/core/chance"

// Digest hashes the state by names, not by ids: two clusters that differ only
// in the order in which ids were given out have the same digest.
func (v *View) Digest() uint64 { return v.digest(true) }

// Committed is the digest without what is only believed: facts and commitments, which a
// restart brings back as they were.
func (v *View) Committed() uint64 { return v.digest(false) }

func (v *View) digest(beliefs bool) uint64 {
	sum, asked := uint64(0), v.askedFor()
	for i := range v.Nodes.Len() {
		n := v.Node(NodeID(i))
		if n.Life != LifeOff {
			sum += chance.Hash(1, n.Key, n.State, uint64(n.DrainUntil), n.Residents, uint64(n.FreeMilli), uint64(n.IdleDevices), uint64(len(n.Pods))) + v.companyDigest(n.Company, asked)*n.Key + v.cacheDigest(n.Cache, beliefs)*n.Key
		}
	}
	for i := range v.Pods.Len() {
		if p := v.Pod(PodID(i)); p.Phase != PhaseGone {
			sum += v.podDigest(p)
		}
	}
	for i := range v.Queues.Len() {
		q := v.Queues.At(int32(i))
		if q.Gone {
			continue
		}
		usage := q.Usage
		if !beliefs {
			usage = Usage{}
		}
		h := chance.Hash(3, q.Key, uint64(q.UsedMilli), uint64(usage.History))
		for _, spent := range usage.Hour {
			h = chance.Fold(h, uint64(spent))
		}
		for d := range q.Used.Dims() {
			h = chance.Fold(h, uint64(q.Used.At(d)))
		}
		sum += v.termsDigest(h, q)
	}
	for i := range v.Groups.Len() {
		if g := v.Groups.At(int32(i)); g.Known || g.Members > 0 || g.Children > 0 {
			sum += v.groupDigest(g)
		}
	}
	for i := range v.Jobs.Len() {
		if j := v.Jobs.At(int32(i)); j.Known || j.Members > 0 || j.Named > 0 || j.Ended != 0 {
			sum += v.jobDigest(j)
		}
	}
	for i := range v.slas {
		sum += v.slas[i].digest()
	}
	for i := range v.Domains.Len() {
		d := v.Domains.At(int32(i))
		sum += chance.Fold(d.Totals.digest(4), d.Key)
	}
	for i := range v.Classes.Len() {
		c := v.Classes.At(int32(i))
		if c.Totals == (Totals{}) {
			continue // of nodes that are gone
		}
		sum += chance.Fold(c.Totals.digest(5), c.Key)
	}
	for i := range v.Intents.Len() {
		if in := v.Intents.At(int32(i)); in.ID != 0 {
			sum += chance.Hash(6, in.ID, uint64(in.Action), v.Pod(in.Pod).Key, uint64(in.Accepted), uint64(in.Deadline))
			if in.Action == ActionResize {
				sum += chance.Hash(27, in.ID, v.PlacementDigest(&in.Place), v.PlacementDigest(&in.Before))
			}
			if v.outstanding(in) {
				sum += chance.Hash(31, in.ID, v.Budgets.At(int32(in.Budget)).Key)
			}
			sum += v.targetDigest(in)
			for _, id := range in.After {
				sum += chance.Hash(24, in.ID, in.Together, id)
			}
		}
	}
	sum += v.movesDigest(0) + v.legaciesDigest()
	for i := range v.Claims.Len() {
		if c := v.Claims.At(int32(i)); c.Node != None {
			place := Placement{Node: c.Node, Grants: c.Grants}
			sum += chance.Fold(v.grantsDigest(chance.Hash(8, c.Key, v.Node(c.Node).Key), &place), 0)
		}
	}
	sum += v.artifactsDigest()
	return chance.Mix(sum)
}

// termsDigest adds what was agreed on with a tenant.
func (v *View) termsDigest(h uint64, q *Queue) uint64 {
	h = chance.Hash(h, uint64(q.Weight), uint64(q.DeservedMilli), uint64(q.LimitMilli))
	if q.Parent != None {
		h = chance.Fold(h, v.Queue(q.Parent).Key)
	}
	for d := range max(q.Deserved.Dims(), q.Limit.Dims()) {
		if deserved, limit := q.Deserved.At(d), q.Limit.At(d); deserved > 0 || limit > 0 {
			h += chance.Hash(chance.HashString(v.DimName(d)), uint64(deserved), uint64(limit))
		}
	}
	return h
}

func (v *View) podDigest(p *Pod) uint64 {
	h := chance.Hash(2, p.Key, uint64(p.Phase), uint64(p.Attempt), uint64(p.Arrived), uint64(p.Bound), uint64(p.Started))
	if p.LastNode != None {
		h = chance.Fold(h, v.Node(p.LastNode).Key)
	}
	if p.Spec.Group != None {
		h = chance.Fold(h, v.Group(p.Spec.Group).Key)
	}
	if p.Spec.Job != None {
		h = chance.Hash(20, h, v.Job(p.Spec.Job).Key)
	}
	if p.Evictions > 0 || p.Displaced > 0 {
		h = chance.Hash(21, h, uint64(p.Displaced), uint64(p.Evictions))
	}
	if p.Spec.Rank != None {
		h = chance.Hash(h, uint64(p.Spec.Rank))
	}
	if p.Ran > 0 {
		h = chance.Hash(25, h, uint64(p.Ran))
	}
	if p.Repaid > 0 {
		h = chance.Hash(26, h, uint64(p.Repaid))
	}
	if p.Rests > 0 {
		h = chance.Hash(45, h, uint64(p.Rests))
	}
	if p.GoneBy > 0 {
		h = chance.Hash(35, h, uint64(p.GoneBy))
	}
	if p.Busy.Count > 0 {
		h = p.Busy.digest(h)
	}
	h = v.refusalsDigest(h, p)
	return chance.Fold(h, v.PlacementDigest(&p.Placement))
}

func (v *View) jobDigest(j *Job) uint64 {
	h := chance.Hash(22, j.Key, uint64(j.Priority), uint64(j.SLATotal), uint64(j.Deadline), uint64(j.MinWorkers), uint64(j.MaxWorkers), uint64(j.Expected))
	h = chance.Hash(h, uint64(j.Checkpoint.Last), uint64(j.Checkpoint.Period), uint64(j.Checkpoint.Write), uint64(j.Checkpoint.Restart))
	h = chance.Hash(h, uint64(j.Disruptions), uint64(j.Members), uint64(j.Displaced), uint64(j.Evictions))
	h = chance.Hash(h, chance.HashString(v.Symbols.Text(j.Kind)), chance.HashString(v.Symbols.Text(j.SLA)))
	if j.Queue != None {
		h = chance.Fold(h, v.Queues.At(int32(j.Queue)).Key)
	}
	if j.Ran > 0 {
		h = chance.Hash(29, h, uint64(j.Ran))
	}
	h = v.sizingDigest(v.afterDigest(h, j), j)
	if j.Preemptible {
		h++
	}
	if j.Known {
		h += 2
	}
	return h
}

func (v *View) groupDigest(g *Group) uint64 {
	h := chance.Hash(8, g.Key, uint64(g.Minimum), uint64(g.Hold), uint64(g.Deadline), uint64(g.Members), uint64(g.Placed))
	if g.Queue != None {
		h = chance.Fold(h, v.Queues.At(int32(g.Queue)).Key)
	}
	h = v.returnsDigest(h, g)
	if g.Known {
		h++
	}
	if g.Ran {
		h += 2
	}
	if g.Job != None {
		h = chance.Hash(23, h, v.Job(g.Job).Key)
	}
	if g.Parent != None || g.Wished != 0 || g.Groups != 0 || g.Comm != CommNone {
		h = chance.Hash(h, uint64(g.Wished), uint64(g.Groups), uint64(g.Comm))
		if g.Parent != None {
			h = chance.Fold(h, v.Group(g.Parent).Key)
		}
	}
	for _, wish := range g.Topology {
		h = chance.Hash(h, uint64(wish.Level))
		if wish.Required {
			h++
		}
	}
	return h
}

// PlacementDigest hashes a placement by the node's name and the devices'
// positions on it.
func (v *View) PlacementDigest(place *Placement) uint64 {
	if !place.Placed() {
		return 0
	}
	n := v.Node(place.Node)
	h := v.grantsDigest(chance.Hash(7, n.Key, v.Shape(place.Shape).Key, uint64(place.Identity)), place)
	if place.Lease != nil {
		h = chance.Fold(h, place.Lease.digest())
	}
	return h
}

func (v *View) grantsDigest(h uint64, place *Placement) uint64 {
	n := v.Node(place.Node)
	for i := range place.Grants {
		g := &place.Grants[i]
		h = chance.Fold(h, uint64(g.Device-n.Spec.FirstDevice))
		h = chance.Fold(h, uint64(g.Milli))
		h = chance.Fold(h, uint64(g.Memory))
		h = chance.Fold(h, chance.HashString(v.Symbols.Text(g.Profile)))
	}
	return h
}

func (t *Totals) digest(kind uint64) uint64 {
	return chance.Hash(kind, uint64(t.Nodes), uint64(t.Devices), uint64(t.IdleDevices), uint64(t.FreeMilli), uint64(t.FreeCPU), uint64(t.FreeMemory))
}
