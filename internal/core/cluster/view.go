package cluster

import (
	"math/bits"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/moment"
)

// View is the state of a cluster for reading. A Snapshot, a Txn and the world's
// Ledger all show one.
type View struct {
	Nodes     Table[Node]
	Devices   Table[Device]
	Pods      Table[Pod]
	Shapes    Table[Shape]
	Groups    Table[Group]
	Jobs      Table[Job]
	Services  Table[Service]
	Queues    Table[Queue]
	Domains   Table[Domain]
	Classes   Table[Class]
	Offers    Table[Offer]
	Intents   Table[Intent]
	Budgets   Table[Budget]
	Claims    Table[Claim]
	Crowds    Table[Crowd]
	Kins      Table[Kin] // by id less one
	Artifacts Table[Artifact]
	Symbols   Symbols
	// Extended names the dimensions from DimExtended on.
	Extended []Symbol
	Facts    *Facts
	Beliefs  *Beliefs

	// Loose is what charged pods without a queue use.
	Loose Amount

	// LowestPriority is the lowest of all pods that were ever added: a pod of no
	// higher one need not look for others that would give way to it.
	LowestPriority int32

	// lenders are the pods that have lent a part of what they hold.
	lenders []PodID

	// refused are the pods whose last bind was refused.
	refused []PodID

	// dependents are the jobs that come after others.
	dependents []JobID

	// returned are the groups that have given their room back.
	returned []GroupID

	// slas are the SLA classes, by name.
	slas []SLA
	// moves are the instants at which pods were told to move, within MovesKept of the last.
	moves []moment.Instant
	// legacies are rooms that are kept for heirs.
	legacies []Legacy

	// waiting is a bit set over pod ids: the pods in PhaseWaiting.
	waiting Table[uint64]
	// changes lists the nodes whose State changed, oldest first, from position
	// changesBase on.
	changes     []NodeID
	changesBase uint64
	// shapeEdits counts how often shapes were changed after they were added.
	shapeEdits uint64
	// lineage tells the views of one world from those of another.
	lineage *owner
}

// SameWorld says whether two views show the same world at two instants, so that
// ids, shapes and change positions can be compared.
func (v *View) SameWorld(w *View) bool {
	return v.lineage == w.lineage && v.shapeEdits == w.shapeEdits
}

// Facts are what only the rim can know, as bit sets. They never change in place.
type Facts struct {
	// Excluded holds, per shape, the nodes that a last check refused or that
	// volumes and selectors outside the core rule out.
	Excluded map[ShapeID][]uint64
	// Selected holds, per selector of a device request, the devices that meet it.
	Selected map[Symbol][]uint64
	// Parts holds, per selector that parts of devices meet too, the set of profiles
	// that do, by device.
	Parts map[Symbol][]uint64 `json:",omitempty"`
}

// Excludes says whether a fact keeps the shape off the node.
func (f *Facts) Excludes(shape ShapeID, node NodeID) bool {
	set := f.Of(shape)
	word := int(node) / 64
	return word < len(set) && set[word]>>(uint(node)%64)&1 == 1
}

// Of returns the nodes that facts keep a shape off, as a bit set; nil for none.
func (f *Facts) Of(shape ShapeID) []uint64 {
	if f == nil {
		return nil
	}
	return f.Excluded[shape]
}

// Meeting returns the devices that meet the selector of a request, as a bit set.
func (f *Facts) Meeting(selector Symbol) []uint64 {
	if f == nil {
		return nil
	}
	return f.Selected[selector]
}

// Selects says whether a device meets the selector of a request. No selector is met
// by all, one that nothing is known of by none.
func (f *Facts) Selects(selector Symbol, device DeviceID) bool {
	if selector == 0 {
		return true
	}
	set := f.Meeting(selector)
	word := int(device) / 64
	return word < len(set) && set[word]>>(uint(device)%64)&1 == 1
}

// PartsMeeting returns the profiles that meet the selector of a request, by device.
func (f *Facts) PartsMeeting(selector Symbol) []uint64 {
	if f == nil {
		return nil
	}
	return f.Parts[selector]
}

// PartsOf returns the profiles of a device that meet the selector of a request. No
// selector picks none.
func (f *Facts) PartsOf(selector Symbol, device DeviceID) uint64 {
	sets := f.PartsMeeting(selector)
	if int(device) >= len(sets) {
		return 0
	}
	return sets[device]
}

// Single says whether facts may tell nodes apart, for a shape, that are otherwise
// alike.
func (f *Facts) Single(id ShapeID, s *Shape) bool {
	return f.Of(id) != nil || slices.ContainsFunc(s.Devices, func(r DeviceRequest) bool { return r.Selector != 0 })
}

// Node returns a node for reading.
func (v *View) Node(id NodeID) *Node { return v.Nodes.At(int32(id)) }

// Pod returns a pod for reading.
func (v *View) Pod(id PodID) *Pod { return v.Pods.At(int32(id)) }

// Shape returns a shape for reading.
func (v *View) Shape(id ShapeID) *Shape { return v.Shapes.At(int32(id)) }

// Device returns a device for reading.
func (v *View) Device(id DeviceID) *Device { return v.Devices.At(int32(id)) }

// DeviceOf returns the i-th device of a node for reading.
func (v *View) DeviceOf(n *Node, i int32) *Device { return v.Devices.At(int32(n.Spec.FirstDevice) + i) }

// AppendWaiting adds the ids of all waiting pods to dst, in order of id.
func (v *View) AppendWaiting(dst []PodID) []PodID {
	for w := range v.waiting.Len() {
		word := *v.waiting.At(int32(w))
		for word != 0 {
			dst = append(dst, PodID(w*64+bits.TrailingZeros64(word)))
			word &= word - 1
		}
	}
	return dst
}

// Position is the present end of the change log.
func (v *View) Position() uint64 { return v.changesBase + uint64(len(v.changes)) }

// ChangesSince returns the nodes that changed since a position, repeats
// included; ok is false when the log no longer reaches back that far.
func (v *View) ChangesSince(position uint64) (nodes []NodeID, ok bool) {
	if position < v.changesBase || position > v.Position() {
		return nil, false
	}
	return v.changes[position-v.changesBase:], true
}

// DimName returns the name of a dimension as users write it.
func (v *View) DimName(d Dim) string {
	if d < DimExtended {
		return dimNames[d]
	}
	if i := int(d - DimExtended); i < len(v.Extended) {
		return v.Symbols.Text(v.Extended[i])
	}
	return "resource"
}

var dimNames = [...]string{"cpu", "memory", "pods", "ephemeral-storage", "hugepages-2Mi", "hugepages-1Gi"} // const: names as in Kubernetes

// Snapshot is a View that never changes.
type Snapshot struct{ View }

// frozen returns a copy of the view without any right to write.
func (v *View) frozen() View {
	out := *v
	out.Nodes = v.Nodes.frozen()
	out.Devices = v.Devices.frozen()
	out.Pods = v.Pods.frozen()
	out.Shapes = v.Shapes.frozen()
	out.Groups = v.Groups.frozen()
	out.Jobs = v.Jobs.frozen()
	out.Services = v.Services.frozen()
	out.Queues = v.Queues.frozen()
	out.Domains = v.Domains.frozen()
	out.Classes = v.Classes.frozen()
	out.Offers = v.Offers.frozen()
	out.Intents = v.Intents.frozen()
	out.Budgets = v.Budgets.frozen()
	out.Claims = v.Claims.frozen()
	out.Crowds = v.Crowds.frozen()
	out.Kins = v.Kins.frozen()
	out.Artifacts = v.Artifacts.frozen()
	out.waiting = v.waiting.frozen()
	return out
}

// Adopt makes an empty view one of w's world, for comparing with SameWorld.
func (v *View) Adopt(w *View) { v.lineage, v.shapeEdits = w.lineage, w.shapeEdits }
