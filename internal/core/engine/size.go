package engine

import (
	"cmp"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/fit"
	"github.com/headrace-dev/headrace/internal/core/gang"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/share"
)

// An elastic job is a group whose minimum is its fewest workers; all members up to the
// most wait, or run. In review cycles its size is chosen (sizing.go) and brought about
// (resize.go). In every cycle as many members as were chosen have places, on GPUs of one
// model, and no more. docs/adr/0015 says why it is so.

// Sizes are the numbers by which sizes of jobs are chosen.
type Sizes struct {
	Rules share.SizeRules
	// Calm is for how long a job that was resized is not resized again for gain.
	Calm moment.Span
	// Hold is for how long the room is kept of a job that moves to another model.
	Hold moment.Span
	// Restart is that of a job which does not say; Left what is left of one of which
	// nobody knows how long it runs, in its smallest configuration.
	Restart, Left moment.Span
	// High is the part of a step in gradient synchronisation, in thousandths, above which
	// a job gets smaller; Low the one up to which it grows.
	High, Low int32
	// Apart is by how many thousandths the utilisation of a worker differs from the others'
	// when it lags.
	Apart int32
	// Measures is on how many readings such an answer rests.
	Measures int32
}

// DefaultSizes are the numbers that hold unless somebody says otherwise; docs/adr/0015
// has the reason of each.
func DefaultSizes() Sizes {
	return Sizes{
		Rules: share.DefaultSizeRules(), Calm: 10 * moment.Minute, Hold: 10 * moment.Minute, Restart: 30 * moment.Second, Left: moment.Hour,
		High: 310, Low: 205, Apart: 150, Measures: 5,
	}
}

// Sizing returns the policy with the sizes of elastic jobs chosen.
func (p *Policy) Sizing(s Sizes) *Policy {
	out := *p
	out.Sizes = &s
	return &out
}

// elastic is a group that is an elastic job.
type elastic struct {
	job   cluster.JobID
	group cluster.GroupID
	each  int32 // GPUs of a worker
	ways  uint64
}

// sizes is what a round knows of elastic jobs.
type sizes struct {
	known  map[cluster.GroupID]*elastic // nil for a group that is none
	models []cluster.Symbol             // per node: of all its GPUs; 0 where they are of several
	nodes  map[cluster.Symbol][]cluster.NodeID
	made   map[cluster.JobID]*decision.Scale // what was decided, without From and To
	until  map[cluster.JobID]moment.Instant
}

// elasticOf is the elastic job that a group is, if it is one whose size is chosen: its
// workers are all of its pods, alike, with whole GPUs, and the group stands alone.
func (r *round) elasticOf(id cluster.GroupID) *elastic {
	if r.policy.Sizes == nil || id == cluster.None {
		return nil
	}
	if r.sizes == nil {
		r.sizes = &sizes{known: make(map[cluster.GroupID]*elastic), made: make(map[cluster.JobID]*decision.Scale), until: make(map[cluster.JobID]moment.Instant)}
	}
	e, known := r.sizes.known[id]
	if !known {
		e = elasticIn(&r.txn.Base().View, id)
		r.sizes.known[id] = e
	}
	return e
}

func elasticIn(v *cluster.View, id cluster.GroupID) *elastic {
	g := v.Group(id)
	if !g.Known || g.Parent != cluster.None || g.Children > 0 || g.Minimum < 1 {
		return nil
	}
	e := elastic{job: g.Job, group: id}
	for pod := range v.Members(id) {
		spec := v.Pod(pod).Spec
		if e.job == cluster.None {
			e.job = spec.Job
		}
		ask := v.Shape(spec.Shape).Devices
		if spec.Job != cluster.None && spec.Job != e.job || len(spec.Alternatives) > 0 || len(ask) != 1 || !ask[0].Whole() || e.each > 0 && ask[0].Count != e.each {
			return nil
		}
		e.each = ask[0].Count
	}
	if e.job == cluster.None || e.each == 0 {
		return nil
	}
	j := v.Job(e.job)
	if !j.Known || !j.Elastic() || j.Members > g.Members {
		return nil
	}
	for _, c := range j.Configurations {
		e.ways = chance.Hash(e.ways, uint64(c.Model), uint64(c.Workers), uint64(c.Spread))
	}
	return &e
}

// footing is how an elastic job runs, as things are in the transaction.
type footing struct {
	cluster.JobSize                  // Model 0: its workers are on several
	nodes           []cluster.NodeID // each once
	pods            []cluster.PodID
}

func (r *round) standOf(e *elastic) (out footing) {
	v := r.txn.View()
	for pod := range v.Members(e.group) {
		p := v.Pod(pod)
		if !p.Phase.Charged() || p.Phase == cluster.PhaseTerminating {
			continue
		}
		model := r.modelOf(p.Placement.Node)
		if out.Workers == 0 {
			out.Model = model
		} else if out.Model != model {
			out.Model = 0
		}
		out.Workers++
		out.pods = append(out.pods, pod)
		if !slices.Contains(out.nodes, p.Placement.Node) {
			out.nodes = append(out.nodes, p.Placement.Node)
		}
	}
	return out
}

// modelOf is the model of all GPUs of a node; 0 where they are of several.
func (r *round) modelOf(node cluster.NodeID) cluster.Symbol {
	r.seeModels()
	return r.sizes.models[node]
}

// nodesOf lists the nodes that take work and whose GPUs are all of a model.
func (r *round) nodesOf(model cluster.Symbol) []cluster.NodeID {
	r.seeModels()
	return r.sizes.nodes[model]
}

func (r *round) seeModels() {
	s := r.sizes
	if s.models != nil {
		return
	}
	v := r.txn.Base()
	s.models, s.nodes = make([]cluster.Symbol, v.Nodes.Len()), make(map[cluster.Symbol][]cluster.NodeID)
	for i := range s.models {
		n := v.Node(cluster.NodeID(i))
		model := cluster.Symbol(0)
		for k := range n.Spec.DeviceCount {
			own := v.DeviceOf(n, k).Spec.Model
			if k > 0 && own != model {
				model = 0
				break
			}
			model = own
		}
		if s.models[i] = model; model != 0 && n.TakesWork() {
			s.nodes[model] = append(s.nodes[model], cluster.NodeID(i))
		}
	}
}

// chosen is with how many workers an elastic job may run: its minimum, until more are
// chosen.
func (r *round) chosen(e *elastic) int32 {
	v := r.txn.View()
	return max(v.Group(e.group).Minimum, v.Job(e.job).Sizing.Size.Workers)
}

// moves says whether a job is on its way to another model: it holds nothing, and room
// is kept for it.
func (r *round) moves(e *elastic) bool {
	return r.txn.View().Job(e.job).Sizing.Moving > r.cycle.Now && r.standOf(e).Workers == 0
}

// spreadOf is over how many nodes so many workers may go; 0 is any.
func spreadOf(j *cluster.Job, size cluster.JobSize) int32 {
	for _, c := range j.Configurations {
		if c.Model == size.Model && c.Workers >= size.Workers {
			return c.Spread
		}
	}
	return 0
}

// seatWorker seats one more worker of a job that stands, if it may have one.
func (r *round) seatWorker(e *elastic, pod cluster.PodID) bool {
	now := r.standOf(e)
	if now.Workers >= r.chosen(e) {
		return false
	}
	for _, where := range r.homesOf(e, &now) {
		if (seats{r}).Seat(pod, where) {
			return true
		}
	}
	return false
}

// homesOf are the nodes where a job that stands may have another worker, as its group
// confines them.
func (r *round) homesOf(e *elastic, now *footing) []gang.Where {
	nodes := r.nodesOf(now.Model)
	if now.Model == 0 {
		nodes = nil
		for i := range r.txn.Base().Nodes.Len() {
			nodes = append(nodes, cluster.NodeID(i))
		}
	}
	size := cluster.JobSize{Model: now.Model, Workers: max(now.Workers+1, r.chosen(e))}
	nodes = r.within(e, nodes, 1, spreadOf(r.txn.View().Job(e.job), size), now.nodes, r.slots)
	if nodes == nil {
		nodes = []cluster.NodeID{} // not any
	}
	if !r.wishful(e.group) {
		return []gang.Where{{Nodes: nodes, Island: cluster.None}}
	}
	all := r.search().Confined(e.group)
	for i := range all {
		if all[i].Nodes == nil {
			all[i].Nodes = nodes
			continue
		}
		all[i].Nodes = slices.DeleteFunc(slices.Clone(all[i].Nodes), func(n cluster.NodeID) bool { return !slices.Contains(nodes, n) })
	}
	return all
}

// slots is how many more workers of an elastic job a node takes.
func (r *round) slots(e *elastic, node cluster.NodeID) int32 {
	v := r.txn.View()
	for pod := range v.Members(e.group) {
		return fit.Slots(v, v.Pod(pod).Spec.Shape, node, cluster.None)
	}
	return 0
}

// within leaves those of some nodes over which more workers may go, where a job spans so
// many at most: the ones it is on, and of the others those with most room, or the one
// with the least that is enough.
func (r *round) within(e *elastic, nodes []cluster.NodeID, more, spread int32, used []cluster.NodeID, slots func(*elastic, cluster.NodeID) int32) []cluster.NodeID {
	if spread == 0 {
		return nodes
	}
	out := slices.Clone(used)
	if int32(len(out)) >= spread {
		return out
	}
	type room struct {
		node  cluster.NodeID
		slots int32
		tie   uint64
	}
	var rooms []room
	for _, node := range used {
		more -= slots(e, node)
	}
	for _, node := range nodes {
		if n := slots(e, node); n > 0 && !slices.Contains(used, node) {
			rooms = append(rooms, room{node, n, r.policy.tie(r.txn.View(), r.cycle, node)})
		}
	}
	slices.SortFunc(rooms, func(a, b room) int {
		return cmp.Or(cmp.Compare(b.slots, a.slots), cmp.Compare(a.tie, b.tie), cmp.Compare(a.node, b.node))
	})
	for len(rooms) > 0 && int32(len(out)) < spread {
		next := 0
		for k := range rooms {
			if rooms[k].slots >= max(more, 1) && rooms[k].slots < rooms[next].slots {
				next = k // it is enough, and leaves less
			}
		}
		out = append(out, rooms[next].node)
		more -= rooms[next].slots
		rooms = slices.Delete(rooms, next, next+1)
	}
	return out
}

// startWorkers starts an elastic job with its fewest workers, or with as many as were
// chosen for it where it comes from another model. It says why not.
func (r *round) startWorkers(e *elastic) *decision.Reason {
	v := r.txn.View()
	j, g := v.Job(e.job), v.Group(e.group)
	pods := r.inRanks(r.unseated(r.squads[e.group].members))
	now := r.standOf(e)
	want := []int32{g.Minimum - now.Workers}
	models := r.modelsFor(j, g.Minimum)
	switch {
	case now.Model != 0:
		models = []cluster.Symbol{now.Model}
	case r.moves(e):
		models = []cluster.Symbol{j.Sizing.Size.Model}
		if most := min(j.Sizing.Size.Workers, int32(len(pods))); most > want[0] {
			want = []int32{most, want[0]}
		}
	}
	seat := func(model cluster.Symbol, n int32) (reached int32, binds func() *decision.Reason) {
		nodes := r.within(e, r.nodesOf(model), n, spreadOf(j, cluster.JobSize{Model: model, Workers: now.Workers + n}), now.nodes, r.slots)
		return r.seatWorkers(e, pods[:n], nodes)
	}
	for _, model := range models {
		for _, n := range want {
			if r.attempt(func() bool {
				reached, _ := seat(model, n)
				return reached == n
			}) {
				return nil
			}
		}
	}
	if len(models) == 0 {
		return &decision.Reason{Code: decision.DeviceModel, Group: e.group, Members: g.Minimum}
	}
	// The model that it would like best speaks for all.
	var why *decision.Reason
	r.attempt(func() bool {
		reached, next := seat(models[0], want[len(want)-1])
		why = &decision.Reason{Code: decision.DeviceModel}
		if next != nil {
			why = next()
		}
		why.Group, why.Members, why.Seated = e.group, g.Minimum, min(reached+now.Workers, g.Minimum)
		return false
	})
	return why
}

// modelsFor lists the models on which a job may start, the fastest first.
func (r *round) modelsFor(j *cluster.Job, least int32) (out []cluster.Symbol) {
	var first []cluster.Configuration
	for _, c := range j.Configurations {
		if c.Workers >= least && !slices.ContainsFunc(first, func(d cluster.Configuration) bool { return d.Model == c.Model }) {
			first = append(first, c)
		}
	}
	slices.SortStableFunc(first, func(a, b cluster.Configuration) int { return cmp.Compare(b.Rate, a.Rate) })
	for _, c := range first {
		out = append(out, c.Model)
	}
	return out
}

// inRanks orders members as they are seated, those of lower ranks first.
func (r *round) inRanks(members []cluster.PodID) []cluster.PodID {
	out := slices.Clone(members)
	r.inOrder(out)
	v := r.txn.Base()
	slices.SortStableFunc(out, func(a, b cluster.PodID) int { return cmp.Compare(v.Pod(a).Spec.Rank, v.Pod(b).Spec.Rank) })
	return out
}

// seatWorkers seats all of some workers on some nodes, together on one where that is
// possible; or it says how many found room, and how to find out what binds the next.
func (r *round) seatWorkers(e *elastic, pods []cluster.PodID, nodes []cluster.NodeID) (seated int32, binds func() *decision.Reason) {
	v := r.txn.View()
	if len(nodes) == 0 {
		return 0, nil
	}
	n := int32(len(pods))
	if r.standOf(e).Workers == 0 && n > 1 && r.policy.Choose == nil && v.Ties(pods[0]) == 0 {
		var whole []cluster.NodeID
		for _, node := range nodes {
			if r.slots(e, node) >= n {
				whole = append(whole, node)
			}
		}
		if node, _ := r.memo.bestOf(v, v.Pod(pods[0]).Spec.Shape, whole, func(cluster.NodeID) bool { return true }); node != cluster.None {
			if r.attempt(func() bool {
				for _, pod := range pods {
					if !(seats{r}).Seat(pod, gang.Where{Nodes: []cluster.NodeID{node}, Island: cluster.None}) {
						return false
					}
				}
				return true
			}) {
				return n, nil
			}
		}
	}
	where := gang.Where{Nodes: nodes, Island: cluster.None}
	for _, pod := range pods {
		if !(seats{r}).Seat(pod, where) {
			return seated, func() *decision.Reason {
				why := seats{r}.Binds(pod, where)
				return &why
			}
		}
		seated++
	}
	return seated, nil
}

// workerOf is the elastic job that stands, of which a pod is another worker; nil for all
// other pods.
func (r *round) workerOf(pod cluster.PodID) *elastic {
	e := r.elasticOf(r.txn.View().Pod(pod).Spec.Group)
	if e == nil || !r.txn.View().Stands(e.group) {
		return nil
	}
	return e
}

// sufficed says whether a pod is one more worker than were chosen for its job.
func (r *round) sufficed(pod cluster.PodID) bool {
	e := r.workerOf(pod)
	return e != nil && r.standOf(e).Workers >= r.chosen(e)
}

// homes are the nodes where others may give way to a pod; nil: any.
type homes map[cluster.NodeID]bool

func (h homes) admits(node cluster.NodeID) bool { return h == nil || h[node] }

// homesFor are those of another worker of a job that stands.
func (r *round) homesFor(pod cluster.PodID) homes {
	e := r.workerOf(pod)
	if e == nil {
		return nil
	}
	now := r.standOf(e)
	out := homes{}
	for _, where := range r.homesOf(e, &now) {
		for _, node := range where.Nodes {
			out[node] = true
		}
	}
	return out
}

// enough is why a worker waits whose job has as many as were chosen for it, or what binds
// it on the nodes where its job is; nil for one that is no worker of a job that stands.
func (r *round) enough(pod cluster.PodID) *decision.Reason {
	v, e := r.txn.View(), r.workerOf(pod)
	if e == nil {
		return nil
	}
	now := r.standOf(e)
	if now.Workers >= r.chosen(e) {
		return &decision.Reason{Code: decision.SizeReached, Have: int64(now.Workers), Need: int64(v.Job(e.job).MaxWorkers), Job: e.job}
	}
	all := r.homesOf(e, &now)
	where := all[len(all)-1]
	if len(where.Nodes) == 0 {
		return &decision.Reason{Code: decision.DeviceModel}
	}
	why := seats{r}.Binds(pod, where)
	return &why
}

// moveIn lets jobs that come from another model start there, before all others; as long
// as some of their workers have not left, it keeps the room for them.
func (r *round) moveIn() {
	v := r.txn.Base()
	any := false
	for i := range v.Jobs.Len() {
		any = any || v.Job(cluster.JobID(i)).Sizing.Moving > r.cycle.Now
	}
	if !any {
		return
	}
	var moving []*elastic
	for i := range v.Groups.Len() {
		e := r.elasticOf(cluster.GroupID(i))
		if e != nil && r.moves(e) {
			moving = append(moving, e)
		}
	}
	slices.SortFunc(moving, func(a, b *elastic) int {
		x, y := v.Job(a.job), v.Job(b.job)
		return cmp.Or(cmp.Compare(x.Sizing.Moving, y.Sizing.Moving), cmp.Compare(x.Key, y.Key))
	})
	for _, e := range moving {
		leaves := false
		for pod := range v.Members(e.group) {
			leaves = leaves || v.Pod(pod).Phase == cluster.PhaseTerminating
		}
		switch {
		case leaves:
			r.withhold(e, v.Job(e.job).Sizing.Size)
		case r.squads != nil && len(r.squads[e.group].members) > 0 && !r.cannotStart(e.group):
			r.start(e.group)
		}
	}
}

// withhold keeps idle GPUs from others on which a job would run in a size. It says no,
// and keeps none, where there are too few.
func (r *round) withhold(e *elastic, size cluster.JobSize) bool {
	v := r.txn.View()
	left := size.Workers
	type part struct {
		node cluster.NodeID
		n    int32
	}
	var parts []part
	nodes := r.within(e, r.nodesOf(size.Model), left, cmp.Or(spreadOf(v.Job(e.job), size), size.Workers), nil, r.slots)
	for _, node := range nodes {
		if n := min(r.slots(e, node), left); n > 0 {
			parts = append(parts, part{node, n})
			left -= n
		}
	}
	if left > 0 {
		return false
	}
	for _, p := range parts {
		n := v.Node(p.node)
		need := p.n * e.each
		for i := range n.Spec.DeviceCount {
			if d := v.DeviceOf(n, i); need > 0 && d.Idle() && d.Health == cluster.Healthy {
				r.txn.Withhold(d.ID)
				need--
			}
		}
		r.memo.touch(p.node)
	}
	r.bound = nil
	return true
}
