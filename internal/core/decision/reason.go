package decision

import (
	"fmt"
	"strings"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// Code names the constraint that binds.
type Code uint8

// The constraints in the order in which they are looked at: the later the code,
// the closer the pod came to fitting. Codes up to NodeCapacity depend on what a
// node has when empty, the next group on what may be changed about it, the last
// on how full it is.
const (
	Fits Code = iota
	NoNodes
	DeviceModel
	DeviceMemorySize
	DeviceKind  // no device can be divided as asked
	DeviceCount // too few such devices on one node
	DeviceLink  // no island or NUMA node large enough
	NodeCapacity

	DeviceAuthority
	NodeExcluded
	NodeSelector
	NodeTaint
	NodeLife
	TopologyLabel // a relation goes by a label that the node lacks
	PodAffinity   // the pods to be near to are elsewhere

	NodeRoom
	DeviceRoom // a share: no device has as much left
	DeviceMemoryRoom
	DeviceProfileRoom
	DeviceIdle // whole devices: too few are idle
	DeviceLinkRoom
	NodePorts       // another pod has a port of the host
	PodAntiAffinity // pods to keep away from are there
	PodShunned      // pods that keep this one away are there
	TopologySpread  // there would be too many of its kind there
	QueueLimit      // the pod's queue, or one above it, is at its limit
	PolicyWaits     // there is room, and the policy does not take it
	GaveUp          // the search ran out of budget; it does not say "impossible"

	// What keeps a member of a group waiting before anything is searched for it.
	GroupUnknown // the group it names does not exist
	GroupMembers // fewer members have come than have to start together
	GroupParent  // the group above it does not exist
	GroupParts   // fewer sub-groups have come than have to start together
	GroupWished  // its group has as many members as it wished for
	GroupDomain  // no node is in a domain of the level that members must share

	GroupCapacity // not even an empty domain, or cluster, holds as many members
	GroupRoom     // its parts do not fit beside each other

	// What a pod waits for that has been decided about already.
	VictimsLeave // room is reserved for it, which others are still to leave
	BackingOff   // its bind was refused, and is tried again after a while
	SetAside     // its bind was refused too often

	// What keeps the pods of a job out of the line that comes after others.
	AwaitsJob      // a job that it waits for has not come so far
	JobUnknown     // a job that it waits for does not exist
	AncestorFailed // a job that had to come before has failed

	GroupBackingOff // its group gave its room back, and is tried again after a while
	RoomReserved    // there is room, which is reserved for others whose turn was earlier
	SizeReached     // its job runs with as many workers as were chosen for it
	Knot            // it waits for what another group holds, and that, or one after it, for what its group holds
	Fetching        // what it needs is on its way to the node that it would go to
)

// LeavingHelps says whether somebody's leaving may undo what binds.
func (c Code) LeavingHelps() bool {
	switch c {
	case QueueLimit, PolicyWaits, RoomReserved, GaveUp, Fits, VictimsLeave, BackingOff, Fetching:
		return false
	}
	return c.Future() == AfterRoom
}

// Future returns what has to happen before the answer of a code can change.
func (c Code) Future() Future {
	switch {
	case c >= GroupUnknown && c <= GroupDomain, c == SetAside, c == AwaitsJob, c == JobUnknown, c == SizeReached:
		return AfterChange
	case c == GroupCapacity, c == AncestorFailed:
		return Never
	case c >= NodeRoom:
		return AfterRoom
	case c > NodeCapacity || c == NoNodes || c == Fits:
		return AfterChange
	}
	return Never
}

// Future says what has to happen before the answer can change.
type Future uint8

const (
	// AfterRoom: it fits this cluster, once enough has left.
	AfterRoom Future = iota
	// AfterChange: something has to be changed first (a node made ready, healed).
	AfterChange
	// Never: nothing in this cluster can hold it, even empty.
	Never
)

var futureNames = [...]string{"waiting for room", "waiting for a change", "never in this cluster"} // const: names of the futures

func (f Future) String() string { return futureNames[f] }

// Reason is why something is not placed. The zero value means that it fits.
type Reason struct {
	Code Code
	Dim  cluster.Dim // for NodeCapacity and NodeRoom
	Need int64       // what is asked for, in the unit of the constraint
	Have int64       // the most that any node considered can give
	// Nodes is on how many of Of nodes this constraint was the last to bind.
	Nodes, Of int32
	// Queue is the one at its limit, for QueueLimit.
	Queue cluster.QueueID
	// Group is the one that does not exist, for GroupUnknown and GroupParent; for
	// GroupMembers, GroupParts and GroupWished, and where Members is set, the one that
	// they are about.
	Group cluster.GroupID
	// Members is how many have to start together, where a group waits: Seated of
	// them have a place or would get one, and the rest is about the next. 0: the
	// reason is a single pod's.
	Members, Seated int32
	// Guarded is on how many nodes pods of lower priority would have to go, and
	// budgets or protection keep them.
	Guarded int32
	// Domain is the one that came closest, where members must share one; for SetAside,
	// the node that refused last; for Fetching, the node that it would go to.
	Domain cluster.Spot
	// Until is when the waiting is over at the latest: for VictimsLeave, until when the
	// room is held; for BackingOff and GroupBackingOff, when it is tried again; for Fetching,
	// when all is there. 0 where nobody can say.
	Until moment.Instant
	// Job is the one that is waited for, for AwaitsJob, JobUnknown and AncestorFailed, and
	// the pod's own for SizeReached;
	// Need says for what, as a cluster.DependencyKind. Failed is the one that failed,
	// for AncestorFailed: Job, or one that comes before it.
	Job, Failed cluster.JobID
	// Deadline is the one that cannot be met any more, and End when it could be done at
	// the earliest, where that is so; else both are 0.
	Deadline, End moment.Instant
	// For is, of RoomReserved, the pod that the room is reserved for.
	For cluster.PodID `json:",omitempty"`
	// Ring is, of Knot, what waits for what, from the group of the pod back to it.
	Ring *Ring `json:",omitempty"`
	// About names the relation that binds, for those between pods, and the counter
	// that does, for partitions.
	About cluster.Symbol
}

// None says that nothing binds.
func (r Reason) None() bool { return r.Code == Fits }

// Describe returns the reason in one sentence, with names out of the view.
func (r Reason) Describe(v *cluster.View) string { return r.Tell(v, moment.Instant.String) }

// Tell is Describe for a reader who knows instants by another clock.
func (r Reason) Tell(v *cluster.View, clock func(moment.Instant) string) string {
	text := r.constraint(v, clock)
	switch {
	case r.Members > 0:
		text = r.asMember(v, text)
	case r.Domain.Set && r.Code != GroupCapacity && r.Code != SetAside && r.Code != Fetching:
		text = fmt.Sprintf("must be in %s with its group, and there it %s", r.Domain.Describe(v), text)
	}
	if r.Of > 0 {
		text += fmt.Sprintf(" (%d of %d nodes)", r.Nodes, r.Of)
	}
	if r.Guarded > 0 {
		text += fmt.Sprintf("; evicting pods of lower priority would make room on %s, budgets and protection keep them", nodes(r.Guarded))
	}
	switch r.Code {
	case Fits, BackingOff, GroupBackingOff, Fetching: // that is a matter of time alone
	case AncestorFailed:
		text += "; never, unless that is submitted again"
	default:
		text += "; " + r.Code.Future().String()
	}
	if r.End != 0 {
		text += fmt.Sprintf("; its deadline %s cannot be met, the earliest end is %s", clock(r.Deadline), clock(r.End))
	}
	return text
}

// groupName is "its group", or the name of one that is in a tree.
func (r Reason) groupName(v *cluster.View) string {
	if g := v.Group(r.Group); g.Parent != cluster.None || g.Children > 0 {
		return "group " + g.Name
	}
	return "its group"
}

// asMember says of a group what binds the first member that has no room, in the
// domain that came closest.
func (r Reason) asMember(v *cluster.View, text string) string {
	if text = r.ofMembers(v, text); int(r.Group) < v.Groups.Len() && v.Group(r.Group).Parent != cluster.None {
		return "group " + v.Group(r.Group).Name + ": " + text
	}
	return text
}

func (r Reason) ofMembers(v *cluster.View, text string) string {
	if r.Domain.Set {
		next := "for the next one " + text
		if strings.HasPrefix(text, "needs ") || strings.HasPrefix(text, "must ") {
			next = "the next one " + text
		}
		return fmt.Sprintf("%s has room for %d of %d members; %s", r.Domain.Describe(v), r.Seated, r.Members, next)
	}
	have := "has"
	if r.Seated != 1 {
		have = "have"
	}
	next := "for the next one " + text
	if strings.HasPrefix(text, "needs ") || strings.HasPrefix(text, "must ") {
		next = "the next one " + text
	}
	return fmt.Sprintf("%d of %d members %s room; %s", r.Seated, r.Members, have, next)
}

func (r Reason) constraint(v *cluster.View, clock func(moment.Instant) string) string {
	switch r.Code {
	case Fits:
		return "fits"
	case NoNodes:
		return "the cluster has no nodes"
	case NodeExcluded:
		return "volumes or device selectors rule the nodes out"
	case NodeSelector:
		return "no node has the labels asked for"
	case NodeTaint:
		return "the nodes have taints that are not tolerated"
	case DeviceAuthority:
		return "the kubelet picks the cards here: only whole ones, and none in particular"
	case DeviceModel:
		return "no device of an allowed model"
	case DeviceMemorySize:
		return fmt.Sprintf("needs devices of %v, the largest has %v", quantity.Bytes(r.Need), quantity.Bytes(r.Have))
	case DeviceKind:
		return "no device can be divided as asked"
	case DeviceCount:
		return fmt.Sprintf("needs %s on one node, the largest node has %d", devices(r.Need, ""), r.Have)
	case DeviceLink:
		return fmt.Sprintf("needs %s, the largest island or NUMA node has %d", devices(r.Need, "linked "), r.Have)
	case NodeCapacity:
		return fmt.Sprintf("needs %s, the largest node has %s", amount(v, r.Dim, r.Need), amount(v, r.Dim, r.Have))
	case NodeLife:
		return "the nodes that fit are not ready"
	case NodeRoom:
		return fmt.Sprintf("needs %s, the most free on one node is %s", amount(v, r.Dim, r.Need), amount(v, r.Dim, r.Have))
	case DeviceRoom:
		return fmt.Sprintf("needs %d milli-GPU on one device, the most free is %d", r.Need, r.Have)
	case DeviceMemoryRoom:
		return fmt.Sprintf("needs %v of device memory, the most free is %v", quantity.Bytes(r.Need), quantity.Bytes(r.Have))
	case DeviceProfileRoom:
		text := fmt.Sprintf("needs room for %s on one node, there is room for %d", partitions(r.Need), r.Have)
		if r.About != 0 {
			text += fmt.Sprintf(" (too little is left of %s)", v.Symbols.Text(r.About))
		}
		return text
	case DeviceIdle:
		return fmt.Sprintf("needs %s on one node, the most idle is %d", devices(r.Need, "idle "), r.Have)
	case TopologyLabel:
		return fmt.Sprintf("the nodes lack the label %s, which its relations to other pods go by", v.Symbols.Text(r.About))
	case PodAffinity:
		return fmt.Sprintf("must be in one %s, which are in %d of %d", v.Symbols.Text(r.About), r.Have, r.Need)
	case NodePorts:
		return fmt.Sprintf("host port %d is taken", r.Need)
	case PodAntiAffinity:
		return fmt.Sprintf("must not be in one %s, which are in %d of %d", v.Symbols.Text(r.About), r.Have, r.Need)
	case PodShunned:
		return fmt.Sprintf("pods that keep such as it out of their %s are in %d of %d", v.Symbols.Text(r.About), r.Have, r.Need)
	case TopologySpread:
		return fmt.Sprintf("%s would differ by %d, at most %d is allowed", v.Symbols.Text(r.About), r.Need-r.Have, r.Need)
	case QueueLimit:
		if r.Dim == cluster.DimMilli {
			return fmt.Sprintf("queue %s would use %d milli-GPU, its limit is %d", v.Queue(r.Queue).Name, r.Need, r.Have)
		}
		return fmt.Sprintf("queue %s would use %s, its limit is %s", v.Queue(r.Queue).Name, r.Amount(v, r.Need), r.Amount(v, r.Have))
	case PolicyWaits:
		return "there is room; the policy lets it wait"
	case GroupUnknown:
		return fmt.Sprintf("group %s does not exist yet", v.Group(r.Group).Name)
	case GroupParent:
		return fmt.Sprintf("group %s, which is above its group, does not exist yet", v.Group(r.Group).Name)
	case GroupMembers:
		return fmt.Sprintf("%d of %d members of %s have arrived", r.Have, r.Need, r.groupName(v))
	case GroupParts:
		return fmt.Sprintf("%d of %d sub-groups of group %s have arrived", r.Have, r.Need, v.Group(r.Group).Name)
	case GroupWished:
		return fmt.Sprintf("%s has the %d members that it wished for", r.groupName(v), r.Need)
	case GroupDomain:
		return fmt.Sprintf("the members of %s must share one %v, and no node is in one", r.groupName(v), cluster.Level(r.Need))
	case GroupCapacity:
		if r.Domain.Set {
			return fmt.Sprintf("needs room for %d members of %s in one %v, the largest, %s, holds %d when empty",
				r.Need, r.groupName(v), r.Domain.Level, r.Domain.Describe(v), r.Have)
		}
		return fmt.Sprintf("needs room for %d members of %s at once, the cluster holds %d when empty", r.Need, r.groupName(v), r.Have)
	case GroupRoom:
		return "needs room beside the other parts of its group"
	case VictimsLeave:
		return fmt.Sprintf("waits for victims to leave (%s%s)", pods(r.Have), until(r.Until, clock))
	case BackingOff, GroupBackingOff, SetAside:
		return r.pause(v, clock)
	case AwaitsJob, JobUnknown, AncestorFailed:
		return r.dependency(v)
	case RoomReserved:
		return fmt.Sprintf("would be in the way of %s, which is to start at %s", v.Pod(r.For).Spec.Name, clock(r.Until))
	case SizeReached:
		return r.size(v)
	case Knot:
		return r.knot(v, clock)
	case Fetching:
		return fmt.Sprintf("what it needs is fetched to %s first%s", r.Domain.Describe(v), until(r.Until, clock))
	case DeviceLinkRoom:
		return fmt.Sprintf("needs %s, the most idle is %d", devices(r.Need, "idle linked "), r.Have)
	}
	return fmt.Sprintf("gave up after %d of %d hypotheses", r.Have, r.Need)
}

// pause says for how long it is not tried again, and after what.
func (r Reason) pause(v *cluster.View, clock func(moment.Instant) string) string {
	switch {
	case r.Code == BackingOff:
		return fmt.Sprintf("backing off after refused binds (%d%s)", r.Have, until(r.Until, clock))
	case r.Code == GroupBackingOff:
		return fmt.Sprintf("%s gave the room back that was too little for it (%d%s)", r.groupName(v), r.Have, until(r.Until, clock))
	case !r.Domain.Set:
		return fmt.Sprintf("set aside after %d refused binds; a change of the pod brings it back", r.Have)
	}
	return fmt.Sprintf("set aside after %d refused binds, the last on %s; a change of the pod or of that node brings it back", r.Have, v.Node(r.Domain.Node).Spec.Name)
}

// dependency says which job is waited for, and what became of it.
func (r Reason) dependency(v *cluster.View) string {
	text := fmt.Sprintf("waits for the %v of job %s", cluster.DependencyKind(r.Need), v.Job(r.Job).Name)
	switch {
	case r.Code == JobUnknown:
		text += ", which does not exist yet"
	case r.Code == AncestorFailed && r.Failed == r.Job:
		text += ", which has failed"
	case r.Code == AncestorFailed:
		text += fmt.Sprintf(", which comes after job %s, and that has failed", v.Job(r.Failed).Name)
	}
	return text
}

// size says that a job has as many workers as were chosen for it.
func (r *Reason) size(v *cluster.View) string {
	j := v.Job(r.Job)
	switch {
	case r.Have >= r.Need:
		return fmt.Sprintf("job %s runs with the %d workers that it makes use of", j.Name, r.Have)
	case j.Sizing.Crowded:
		return fmt.Sprintf("job %s runs with %d of up to %d workers: more would wait for each other", j.Name, r.Have, r.Need)
	}
	return fmt.Sprintf("job %s runs with %d of up to %d workers: more would not pay", j.Name, r.Have, r.Need)
}

// nodes is "1 node", "2 nodes".
func nodes(n int32) string {
	if n == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", n)
}

// pods is "1 pod", "2 pods".
func pods(n int64) string {
	if n == 1 {
		return "1 pod"
	}
	return fmt.Sprintf("%d pods", n)
}

// until says an instant behind other words, if it is known.
func until(at moment.Instant, clock func(moment.Instant) string) string {
	if at == 0 || at == moment.Never {
		return ""
	}
	return ", until " + clock(at)
}

// devices is "1 idle device", "2 idle devices".
func devices(n int64, kind string) string {
	if n == 1 {
		return "1 " + kind + "device"
	}
	return fmt.Sprintf("%d %sdevices", n, kind)
}

// partitions is "1 partition", "2 partitions".
func partitions(n int64) string {
	if n == 1 {
		return "1 partition"
	}
	return fmt.Sprintf("%d partitions", n)
}

// amount is a number with its unit or what it counts: "17 CPU", "2 GiB of memory",
// "1 pod slot", "3 example.com/fpga".
func amount(v *cluster.View, d cluster.Dim, n int64) string {
	switch d {
	case cluster.DimCPU:
		return quantity.MilliCPU(n).String()
	case cluster.DimMemory, cluster.DimEphemeral, cluster.DimHuge2Mi, cluster.DimHuge1Gi:
		return quantity.Bytes(n).String() + " of " + v.DimName(d)
	}
	if d == cluster.DimMilli {
		return fmt.Sprintf("%d milli-GPU", n)
	}
	name := v.DimName(d)
	if d == cluster.DimPods {
		if name = "pod slots"; n == 1 {
			name = "pod slot"
		}
	}
	return fmt.Sprintf("%d %s", n, name)
}

// Amount is a number in the dimension of the reason, with its unit.
func (r Reason) Amount(v *cluster.View, n int64) string { return amount(v, r.Dim, n) }

// Kind returns the constraint without its numbers, for counting.
func (r Reason) Kind(v *cluster.View) string {
	if name, ok := kinds[r.Code]; ok {
		return name
	}
	if r.Code == NodeCapacity || r.Code == NodeRoom {
		where := "no node large enough in "
		if r.Code == NodeRoom {
			where = "too little free on one node: "
		}
		return where + v.DimName(r.Dim)
	}
	return "fits"
}

// Name is the constraint as one word for programs; it does not change between
// versions.
func (c Code) Name() string {
	if name, ok := codeNames[c]; ok {
		return name
	}
	return "Other"
}

var codeNames = map[Code]string{ // const: names of the constraints for programs
	Fits: "Fits", NoNodes: "NoNodes", DeviceModel: "DeviceModel", DeviceMemorySize: "DeviceMemorySize", DeviceKind: "DeviceKind",
	DeviceCount: "DeviceCount", DeviceLink: "DeviceLink", NodeCapacity: "NodeCapacity", DeviceAuthority: "DeviceAuthority",
	NodeExcluded: "NodeExcluded", NodeSelector: "NodeSelector", NodeTaint: "NodeTaint", NodeLife: "NodeLife", NodeRoom: "NodeRoom",
	DeviceRoom: "DeviceRoom", DeviceMemoryRoom: "DeviceMemoryRoom", DeviceProfileRoom: "DeviceProfileRoom", DeviceIdle: "DeviceIdle",
	DeviceLinkRoom: "DeviceLinkRoom", QueueLimit: "QueueLimit", PolicyWaits: "PolicyWaits", GaveUp: "GaveUp",
	TopologyLabel: "TopologyLabel", PodAffinity: "PodAffinity", NodePorts: "NodePorts", PodAntiAffinity: "PodAntiAffinity",
	PodShunned: "PodShunned", TopologySpread: "TopologySpread", GroupUnknown: "GroupUnknown", GroupMembers: "GroupMembers",
	GroupParent: "GroupParent", GroupParts: "GroupParts", GroupWished: "GroupWished", GroupDomain: "GroupDomain",
	GroupCapacity: "GroupCapacity", GroupRoom: "GroupRoom", VictimsLeave: "VictimsLeave",
	BackingOff: "BackingOff", SetAside: "SetAside", AwaitsJob: "AwaitsJob", JobUnknown: "JobUnknown", AncestorFailed: "AncestorFailed",
	GroupBackingOff: "GroupBackingOff",
	RoomReserved:    "RoomReserved",
	SizeReached:     "SizeReached",
	Knot:            "Knot",
	Fetching:        "Fetching",
}

var kinds = map[Code]string{ // const: names of the constraints
	NoNodes:           "no nodes",
	DeviceModel:       "no device of an allowed model",
	DeviceMemorySize:  "no device with as much memory",
	DeviceKind:        "no device that can be divided so",
	DeviceCount:       "too few devices on any node",
	DeviceLink:        "no island large enough",
	DeviceAuthority:   "the kubelet picks the card",
	NodeExcluded:      "ruled out by volumes or selectors",
	NodeSelector:      "labels asked for",
	NodeTaint:         "taints not tolerated",
	NodeLife:          "nodes not ready",
	TopologyLabel:     "no label that its relations go by",
	PodAffinity:       "affinity to other pods",
	NodePorts:         "host port taken",
	PodAntiAffinity:   "anti-affinity to other pods",
	PodShunned:        "anti-affinity of other pods",
	TopologySpread:    "topology spread",
	DeviceRoom:        "no device with as much of it left",
	DeviceMemoryRoom:  "too little device memory free",
	DeviceProfileRoom: "no room for the partition",
	DeviceIdle:        "too few idle devices on one node",
	DeviceLinkRoom:    "too few idle linked devices",
	QueueLimit:        "queue at its limit",
	PolicyWaits:       "the policy lets it wait",
	GaveUp:            "search gave up",
	GroupUnknown:      "its group does not exist",
	GroupMembers:      "members of its group have not arrived",
	GroupParent:       "the group above its group does not exist",
	GroupParts:        "sub-groups of its group have not arrived",
	GroupWished:       "its group has what it wished for",
	GroupDomain:       "no domain of the level its group must share",
	GroupCapacity:     "no domain large enough for its group",
	GroupRoom:         "the parts of its group do not fit beside each other",
	VictimsLeave:      "victims have to leave first",
	BackingOff:        "backing off after refused binds",
	SetAside:          "set aside after refused binds",
	AwaitsJob:         "waits for another job",
	JobUnknown:        "waits for a job that does not exist",
	AncestorFailed:    "a job before it has failed",
	GroupBackingOff:   "its group gave its room back",
	RoomReserved:      "in the way of others that are to start",
	SizeReached:       "its job has as many workers as were chosen",
	Knot:              "groups wait for what each other holds",
	Fetching:          "what it needs is being fetched",
}
