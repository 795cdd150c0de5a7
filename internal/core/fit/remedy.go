package fit

import (
	"fmt"
	"strings"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// Remedies says what would let a shape go somewhere, in a few sentences with
// names and amounts. The survey is of the same view; where a node fits already,
// there is nothing to say.
func Remedies(v *cluster.View, id cluster.ShapeID, survey *Survey) []string {
	s, r := v.Shape(id), &survey.Reason
	switch r.Code {
	case decision.Fits:
		return nil
	case decision.NoNodes:
		return []string{"a node"}
	case decision.NodeTaint:
		return taintRemedies(v, survey)
	case decision.NodeSelector:
		return []string{"a node with the labels " + selectorText(v, s), "another node selector or node affinity of the pod"}
	case decision.NodeLife:
		return []string{"one of the nodes made ready: " + names(v, survey.Closest)}
	case decision.DeviceAuthority:
		return []string{"whole cards instead of a share, a partition or linked cards", "a node where the scheduler picks the card (device resource allocation)"}
	case decision.NodeExcluded:
		return []string{"volumes and device selectors that allow a node"}
	case decision.QueueLimit:
		return queueRemedies(v, r)
	case decision.PolicyWaits:
		return nil
	case decision.GroupUnknown:
		return []string{fmt.Sprintf("the group %s, which the pod names", v.Group(r.Group).Name)}
	case decision.GroupMembers:
		return []string{fmt.Sprintf("%s of its group", counted(r.Need-r.Have, "more member"))}
	case decision.TopologyLabel, decision.PodAffinity, decision.NodePorts, decision.PodAntiAffinity, decision.PodShunned, decision.TopologySpread:
		return relationRemedies(v, r, survey.Closest)
	}
	if r.Code.Future() == decision.Never {
		return neverRemedies(v, s, r)
	}
	return roomRemedies(v, s, survey)
}

// roomRemedies names what has to become free, and where the least is missing.
func roomRemedies(v *cluster.View, s *cluster.Shape, survey *Survey) []string {
	r, first := &survey.Reason, ""
	switch r.Code {
	case decision.NodeRoom:
		first = r.Amount(v, r.Need) + " free on one node"
	case decision.DeviceIdle:
		first = counted(r.Need, "idle GPU") + models(v, s) + " on one node"
	case decision.DeviceLinkRoom:
		first = counted(r.Need, "idle linked GPU") + models(v, s) + " on one node"
	case decision.DeviceRoom:
		first = fmt.Sprintf("%d milli-GPU free on one GPU%s", r.Need, models(v, s))
	case decision.DeviceMemoryRoom:
		first = fmt.Sprintf("%v of memory free on one GPU%s", quantity.Bytes(r.Need), models(v, s))
	case decision.DeviceProfileRoom:
		first = "room for the partition on one GPU" + models(v, s)
	default:
		return nil
	}
	if len(survey.Closest) > 0 {
		first += "; the closest: " + names(v, survey.Closest)
	}
	return []string{first}
}

// neverRemedies names what the cluster would have to have.
func neverRemedies(v *cluster.View, s *cluster.Shape, r *decision.Reason) []string {
	switch r.Code {
	case decision.DeviceModel:
		return []string{"a node with " + counted(r.Need, "GPU") + models(v, s)}
	case decision.DeviceMemorySize:
		return []string{fmt.Sprintf("a GPU with %v of memory", quantity.Bytes(r.Need)), fmt.Sprintf("a request for at most %v of memory per GPU", quantity.Bytes(r.Have))}
	case decision.DeviceKind:
		return []string{"a GPU that can be divided as asked, or a request for whole ones"}
	case decision.DeviceCount:
		out := []string{"a node with " + counted(r.Need, "GPU") + models(v, s)}
		if r.Have > 0 {
			out = append(out, "a request for at most "+counted(r.Have, "GPU")+" per pod")
		}
		return out
	case decision.DeviceLink:
		return []string{"a node with " + counted(r.Need, "linked GPU") + models(v, s), "a request for at most " + counted(r.Have, "linked GPU")}
	case decision.NodeCapacity:
		return []string{"a node with " + r.Amount(v, r.Need), "a request for at most " + r.Amount(v, r.Have)}
	}
	return nil
}

func taintRemedies(v *cluster.View, survey *Survey) []string {
	var out []string
	for i := range survey.Taints {
		t := &survey.Taints[i]
		text := v.Symbols.Text(t.Key)
		if t.Value != 0 {
			text += "=" + v.Symbols.Text(t.Value)
		}
		out = append(out, fmt.Sprintf("remove the taint %s:%v from a node, or tolerate it (%s)", text, t.Effect, counted(int64(t.Nodes), "node")))
	}
	return out
}

// relationRemedies names what has to change about other pods.
func relationRemedies(v *cluster.View, r *decision.Reason, closest []cluster.NodeID) []string {
	about := v.Symbols.Text(r.About)
	switch r.Code {
	case decision.TopologyLabel:
		return []string{"the label " + about + " on a node: " + names(v, closest)}
	case decision.PodAffinity:
		return []string{"one of the pods to be near to, with room beside it in its " + about}
	case decision.NodePorts:
		return []string{fmt.Sprintf("host port %d free on one of %s", r.Need, names(v, closest))}
	case decision.PodAntiAffinity:
		return []string{"a " + about + " with room and without the pods to keep away from"}
	case decision.PodShunned:
		return []string{"a " + about + " with room and without pods that keep this one away"}
	}
	return []string{"room in a " + about + " that has fewer of the pods it is spread with"}
}

func queueRemedies(v *cluster.View, r *decision.Reason) []string {
	return []string{fmt.Sprintf("a limit of queue %s that is %s higher, or as much given back by its pods", v.Queue(r.Queue).Name, r.Amount(v, r.Need-r.Have))}
}

// models is " of model A or B" where the shape asks for some.
func models(v *cluster.View, s *cluster.Shape) string {
	var out []string
	for i := range s.Devices {
		for _, m := range s.Devices[i].Models {
			out = append(out, v.Symbols.Text(m))
		}
	}
	if len(out) == 0 {
		return ""
	}
	return " of model " + strings.Join(out, " or ")
}

func names(v *cluster.View, nodes []cluster.NodeID) string {
	var out []string
	for _, id := range nodes {
		out = append(out, v.Node(id).Spec.Name)
	}
	return strings.Join(out, ", ")
}

// counted is "1 idle GPU", "2 idle GPUs".
func counted(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// selectorText writes a selector as people write labels: "a=b, c in (d, e)".
func selectorText(v *cluster.View, s *cluster.Shape) string {
	var choices []string
	for _, terms := range s.Selector {
		var all []string
		for i := range terms {
			all = append(all, requirementText(v, &terms[i]))
		}
		choices = append(choices, strings.Join(all, ", "))
	}
	return strings.Join(choices, "; or ")
}

func requirementText(v *cluster.View, r *cluster.Requirement) string {
	key := v.Symbols.Text(r.Key)
	var values []string
	for _, value := range r.Values {
		values = append(values, v.Symbols.Text(value))
	}
	list := "(" + strings.Join(values, ", ") + ")"
	switch {
	case r.Op == cluster.OpIn && len(values) == 1:
		return key + "=" + values[0]
	case r.Op == cluster.OpIn:
		return key + " in " + list
	case r.Op == cluster.OpNotIn && len(values) == 1:
		return key + "!=" + values[0]
	case r.Op == cluster.OpNotIn:
		return key + " not in " + list
	case r.Op == cluster.OpAbsent:
		return "no " + key
	case r.Op == cluster.OpGreater:
		return fmt.Sprintf("%s>%d", key, r.Number)
	case r.Op == cluster.OpLess:
		return fmt.Sprintf("%s<%d", key, r.Number)
	}
	return key
}
