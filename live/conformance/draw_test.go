package conformance

import (
	"fmt"
	"math/rand"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/headrace-dev/headrace/live/kube"
)

// drawing draws objects. The words are few, so that wishes and offers meet.
type drawing struct {
	*rand.Rand
	nodes []*corev1.Node
	pods  []*corev1.Pod
}

var ( // const: the words that are drawn from
	zones      = []string{"a", "b", "c"}
	disks      = []string{"ssd", "hdd"}
	apps       = []string{"web", "db", "train"}
	spaces     = []string{"red", "blue"}
	taintKeys  = []string{"dedicated", "flaky"}
	taintTexts = []string{"", "x", "7"}
	ports      = []int32{80, 8080}
	features   = []string{"RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport", "GuaranteedQoSPodCPUResize"}
	topologies = []string{corev1.LabelHostname, corev1.LabelTopologyZone, "disk"}
	foreign    = "other-scheduler"
)

const fpga = corev1.ResourceName("example.com/fpga")

// rarely is true once in n times.
func (d *drawing) rarely(n int) bool { return d.Intn(n) == 0 }

func pick[T any](d *drawing, from []T) T { return from[d.Intn(len(from))] }

// namespaces are those that pods live in.
func namespaces() []*corev1.Namespace {
	var out []*corev1.Namespace
	for i, name := range spaces {
		out = append(out, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": apps[i], corev1.LabelMetadataName: name}}})
	}
	return out
}

// newDrawing draws a cluster and the pods that want in.
func newDrawing(seed int64) *drawing {
	d := &drawing{Rand: rand.New(rand.NewSource(seed))}
	for i := range 1 + d.Intn(9) {
		d.nodes = append(d.nodes, d.node(fmt.Sprint("node-", i)))
	}
	for i := range 2 + d.Intn(30) {
		d.pods = append(d.pods, d.pod(fmt.Sprint("pod-", i)))
	}
	return d
}

func count(n int) resource.Quantity { return *resource.NewQuantity(int64(n), resource.DecimalSI) }

func milli(n int) resource.Quantity { return *resource.NewMilliQuantity(int64(n), resource.DecimalSI) }

func mebi(n int) resource.Quantity { return *resource.NewQuantity(int64(n)<<20, resource.BinarySI) }

func (d *drawing) node(name string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{corev1.LabelHostname: name, "generation": fmt.Sprint(1 + d.Intn(5))}}}
	if !d.rarely(6) {
		n.Labels[corev1.LabelTopologyZone] = pick(d, zones)
	}
	if !d.rarely(3) {
		n.Labels["disk"] = pick(d, disks)
	}
	n.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: milli(1000 + d.Intn(40_000)), corev1.ResourceMemory: mebi(1024 + d.Intn(64*1024)), corev1.ResourcePods: count(1 + d.Intn(20)),
		corev1.ResourceEphemeralStorage: mebi(d.Intn(16_384)),
	}
	for name, amount := range map[corev1.ResourceName]resource.Quantity{ // order: drawn before
		kube.DefaultGPU: count(d.Intn(9)), fpga: count(d.Intn(4)), "hugepages-2Mi": mebi(2 * d.Intn(64)), "hugepages-1Gi": mebi(1024 * d.Intn(3)),
	} {
		if !d.rarely(2) {
			n.Status.Allocatable[name] = amount
		}
	}
	for range max(d.Intn(5)-2, 0) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{
			Key: pick(d, taintKeys), Value: pick(d, taintTexts),
			Effect: pick(d, []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}),
		})
	}
	d.condition(n)
	for _, f := range features {
		if d.rarely(2) {
			n.Status.DeclaredFeatures = append(n.Status.DeclaredFeatures, f)
		}
	}
	return n
}

// condition draws what may be wrong with a node. The taints that a node
// controller adds come with it, or are still to come.
func (d *drawing) condition(n *corev1.Node) {
	ready := corev1.ConditionTrue
	switch d.Intn(10) {
	case 0:
		n.Spec.Unschedulable = true
		if d.rarely(2) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
		}
	case 1:
		ready = corev1.ConditionFalse
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule})
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
}

func (d *drawing) pod(name string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pick(d, spaces), Name: name, UID: types.UID(name), Labels: map[string]string{"app": pick(d, apps)}}}
	priority := int32(d.Intn(3) * 1000)
	p.Spec.Priority, p.Spec.SchedulerName = &priority, kube.DefaultName
	d.containers(p)
	d.selectors(p)
	d.tolerations(p)
	d.relations(p)
	d.fate(p)
	return p
}

// fate draws who is to place a pod, and what has become of it so far.
func (d *drawing) fate(p *corev1.Pod) {
	switch d.Intn(12) {
	case 0, 1, 2, 3:
		p.Spec.SchedulerName = foreign
		p.Spec.NodeName = pick(d, d.nodes).Name
		if d.rarely(8) {
			p.Spec.NodeName = "a-node-that-is-gone"
		}
		p.Status.Phase = pick(d, []corev1.PodPhase{corev1.PodPending, corev1.PodRunning, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed})
		if d.rarely(4) {
			d.resized(p)
		}
	case 4:
		p.Spec.SchedulerName = foreign
		p.Status.NominatedNodeName = pick(d, d.nodes).Name
	case 5:
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}}
	case 6:
		p.Status.NominatedNodeName = pick(d, d.nodes).Name
	}
	if d.rarely(10) {
		now := metav1.Unix(1, 0)
		p.DeletionTimestamp = &now
	}
}

// resized draws a resize in place that has not got far.
func (d *drawing) resized(p *corev1.Pod) {
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		has := corev1.ResourceList{corev1.ResourceCPU: milli(100 + d.Intn(3000)), corev1.ResourceMemory: mebi(1 + d.Intn(4096))}
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, AllocatedResources: has, Resources: &corev1.ResourceRequirements{Requests: has},
		})
	}
}

// containers draws what a pod asks for, in all the ways that it can be asked.
func (d *drawing) containers(p *corev1.Pod) {
	for i := range 1 + d.Intn(3) {
		p.Spec.Containers = append(p.Spec.Containers, d.container(fmt.Sprint("c", i)))
	}
	if d.rarely(3) {
		for i := range 1 + d.Intn(3) {
			c := d.container(fmt.Sprint("i", i))
			if d.rarely(2) {
				always := corev1.ContainerRestartPolicyAlways
				c.RestartPolicy = &always
			}
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		}
	}
	if d.rarely(6) {
		p.Spec.Overhead = corev1.ResourceList{corev1.ResourceCPU: milli(d.Intn(500)), corev1.ResourceMemory: mebi(d.Intn(256))}
	}
	if d.rarely(8) {
		p.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: milli(d.Intn(8000))}}
		if d.rarely(2) {
			p.Spec.Resources.Requests[corev1.ResourceMemory] = mebi(d.Intn(8192))
		}
	}
	if d.rarely(16) {
		p.Spec.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{{Action: corev1.ContainerRestartRuleActionRestartAllContainers}}
	}
	if d.rarely(16) {
		own := false
		p.Spec.HostUsers, p.Spec.HostNetwork = &own, true
	}
}

func (d *drawing) container(name string) corev1.Container {
	c := corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{}}}
	for _, r := range []struct {
		name   corev1.ResourceName
		once   int
		amount resource.Quantity
	}{
		{corev1.ResourceCPU, 1, milli(d.Intn(2000))},
		{corev1.ResourceMemory, 2, mebi(d.Intn(2048))},
		{corev1.ResourceEphemeralStorage, 5, mebi(d.Intn(2048))},
		{kube.DefaultGPU, 6, count(d.Intn(4))},
		{fpga, 8, count(d.Intn(3))},
		{"hugepages-2Mi", 12, mebi(2 * d.Intn(32))},
		{"hugepages-1Gi", 16, mebi(1024)},
	} {
		if d.rarely(r.once) {
			c.Resources.Requests[r.name] = r.amount
		}
	}
	return c
}

func (d *drawing) selectors(p *corev1.Pod) {
	if d.rarely(6) {
		p.Spec.NodeSelector = map[string]string{"disk": pick(d, disks)}
	}
	if !d.rarely(3) {
		return
	}
	required := new(corev1.NodeSelector)
	for range 1 + d.Intn(2) {
		var term corev1.NodeSelectorTerm
		for range d.Intn(3) {
			term.MatchExpressions = append(term.MatchExpressions, d.requirement())
		}
		if d.rarely(4) {
			term.MatchFields = []corev1.NodeSelectorRequirement{{
				Key: metav1.ObjectNameField, Operator: pick(d, []corev1.NodeSelectorOperator{corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn}), Values: []string{pick(d, d.nodes).Name},
			}}
		}
		required.NodeSelectorTerms = append(required.NodeSelectorTerms, term)
	}
	p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}}
}

func (d *drawing) requirement() corev1.NodeSelectorRequirement {
	switch d.Intn(6) {
	case 0:
		return corev1.NodeSelectorRequirement{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{pick(d, zones), pick(d, zones)}}
	case 1:
		return corev1.NodeSelectorRequirement{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpNotIn, Values: []string{pick(d, zones)}}
	case 2:
		return corev1.NodeSelectorRequirement{Key: "disk", Operator: corev1.NodeSelectorOpExists}
	case 3:
		return corev1.NodeSelectorRequirement{Key: "disk", Operator: corev1.NodeSelectorOpDoesNotExist}
	case 4:
		return corev1.NodeSelectorRequirement{Key: "generation", Operator: corev1.NodeSelectorOpGt, Values: []string{fmt.Sprint(d.Intn(5))}}
	}
	return corev1.NodeSelectorRequirement{Key: "generation", Operator: corev1.NodeSelectorOpLt, Values: []string{fmt.Sprint(1 + d.Intn(6))}}
}

func (d *drawing) tolerations(p *corev1.Pod) {
	if d.rarely(4) {
		p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Operator: corev1.TolerationOpExists})
	}
	for range d.Intn(4) {
		t := corev1.Toleration{
			Key:      pick(d, append([]string{corev1.TaintNodeUnschedulable, corev1.TaintNodeNotReady}, taintKeys...)),
			Operator: pick(d, []corev1.TolerationOperator{"", corev1.TolerationOpEqual, corev1.TolerationOpExists, corev1.TolerationOpLt, corev1.TolerationOpGt}),
			Effect:   pick(d, []corev1.TaintEffect{"", "", corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute}),
		}
		if t.Operator != corev1.TolerationOpExists {
			t.Value = pick(d, taintTexts)
		}
		p.Spec.Tolerations = append(p.Spec.Tolerations, t)
	}
}

// relations draws wishes about other pods.
func (d *drawing) relations(p *corev1.Pod) {
	if d.rarely(8) {
		port := corev1.ContainerPort{ContainerPort: 1, HostPort: pick(d, ports), Protocol: pick(d, []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP})}
		if d.rarely(2) {
			port.HostIP = pick(d, []string{"10.0.0.1", "0.0.0.0"})
		}
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{port}
	}
	if d.rarely(7) {
		d.affinity(p).PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{d.term()}}
	}
	if d.rarely(7) {
		d.affinity(p).PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{d.term()}}
	}
	if d.rarely(7) {
		for range 1 + d.Intn(2) {
			p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, d.spread())
		}
	}
}

func (d *drawing) affinity(p *corev1.Pod) *corev1.Affinity {
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = new(corev1.Affinity)
	}
	return p.Spec.Affinity
}

func (d *drawing) term() corev1.PodAffinityTerm {
	t := corev1.PodAffinityTerm{TopologyKey: pick(d, topologies), LabelSelector: d.selector()}
	switch d.Intn(5) {
	case 0:
		t.Namespaces = []string{pick(d, spaces)}
	case 1:
		t.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": pick(d, apps)}}
	case 2:
		t.NamespaceSelector = new(metav1.LabelSelector)
	}
	return t
}

func (d *drawing) selector() *metav1.LabelSelector {
	switch d.Intn(8) {
	case 0:
		return nil
	case 1:
		return new(metav1.LabelSelector)
	case 2:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{pick(d, apps)}}}}
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": pick(d, apps)}}
}

func (d *drawing) spread() corev1.TopologySpreadConstraint {
	c := corev1.TopologySpreadConstraint{
		MaxSkew: int32(1 + d.Intn(2)), TopologyKey: pick(d, topologies), LabelSelector: d.selector(),
		WhenUnsatisfiable: pick(d, []corev1.UnsatisfiableConstraintAction{corev1.DoNotSchedule, corev1.DoNotSchedule, corev1.ScheduleAnyway}),
	}
	if d.rarely(3) && c.WhenUnsatisfiable == corev1.DoNotSchedule {
		least := int32(1 + d.Intn(3))
		c.MinDomains = &least
	}
	if d.rarely(3) {
		policy := pick(d, []corev1.NodeInclusionPolicy{corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore})
		c.NodeTaintsPolicy = &policy
	}
	if d.rarely(3) {
		policy := pick(d, []corev1.NodeInclusionPolicy{corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore})
		c.NodeAffinityPolicy = &policy
	}
	if d.rarely(4) && c.LabelSelector != nil {
		c.MatchLabelKeys = []string{"app"}
	}
	return c
}
