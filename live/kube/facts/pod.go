package facts

import (
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/world"

	"github.com/headrace-dev/headrace/api/v1alpha1"

	"github.com/headrace-dev/headrace/live/share"
)

// Standing is what a pod means for the world.
type Standing uint8

const (
	// Absent: it holds nothing and wants nothing from us: finished, or waiting for
	// another scheduler.
	Absent Standing = iota
	// Held: it is ours and is not to be placed yet; Why says for what it waits.
	Held
	// Waiting: it is ours and wants a place.
	Waiting
	// Charged: it is bound, and holds what it asks for until it is gone.
	Charged
)

var standingNames = [...]string{"absent", "held", "waiting", "charged"} // const: names of the standings

func (s Standing) String() string { return standingNames[s] }

// KindLabel names what a pod's runs are known by: runs of one kind resemble each
// other. Without it they are known by their request alone.
const KindLabel = "headrace.dev/kind"

// Pod is what there is to know about a pod.
type Pod struct {
	UID      string
	Standing Standing
	// Added names the group or the part of one that it is in; Group is the group.
	Added   world.PodAdded
	Group   string
	Node    string // where it is bound
	Running bool
	// Gated says that a scheduling gate holds the pod: its owner knows, and nobody
	// has to be told.
	Gated bool
	// Why says, for a held pod, what it asks for that cannot be judged yet.
	Why string
	// Waits says, for a held pod, what must happen before it can be placed.
	Waits string
	// Claims are the resource claims that the pod needs; Request is what it asks for
	// beside them.
	Claims []Claim
	// Asked is who asks for GPUs as an extended resource, and Resource its name.
	// Extended is the claim that was made for them.
	Asked    []Asked
	Resource string
	Extended string
	// Told is what the pod's condition says about why it is not scheduled.
	Told string
	// Leaving says that the pod was told to go and is still there.
	Leaving bool
	// Nominated is the node that a waiting pod was promised room of.
	Nominated string
	// Tied names the first volume that ties the pod to some nodes; empty for none.
	// Which nodes these are is not judged here.
	Tied string

	// Queue is the queue that its label names; whether there is one is for others to
	// say. Job is what its annotations say of its job, and JobFaults what of that
	// cannot be read.
	Queue   string
	Started moment.Instant
	// Deployment is the one that a pod which surges belongs to.
	Deployment string
	Work       string // the name of what it is part of, as others come after it
	GoneBy     moment.Instant
	Job        world.JobFacts
	JobFaults  []string

	// Needs are the images that it needs on its node; of one that another scheduler
	// placed they are not looked at.
	Needs []Need
	// Prefetch is set for a pod of our own that has its node fetch an image.
	Prefetch *Prefetch

	namespace string
	labels    map[string]string
}

// PodOf reads a pod. Ours are those that name the scheduler. Cards are asked for
// under the resource name gpu.
func PodOf(p *corev1.Pod, scheduler string, gpu corev1.ResourceName) Pod {
	out := Pod{UID: string(p.UID), Node: p.Spec.NodeName, Running: p.Status.Phase == corev1.PodRunning, Told: told(p), namespace: p.Namespace, labels: p.Labels}
	out.Leaving, out.Nominated = p.DeletionTimestamp != nil, p.Status.NominatedNodeName
	switch {
	case p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed:
		return out
	case out.Node != "":
		out.Standing = Charged
	case p.Spec.SchedulerName != scheduler || p.DeletionTimestamp != nil:
		return out
	case len(p.Spec.SchedulingGates) > 0:
		out.Standing, out.Gated = Held, true
		return out
	default:
		out.Standing = Waiting
		if out.Why = unsupported(p); out.Why != "" {
			out.Standing = Held
			return out
		}
		if out.Waits = share.Missing(p); out.Waits != "" {
			out.Standing = Held
			return out
		}
	}
	out.Added = world.PodAdded{
		Name: Key(p), UID: out.UID, Kind: p.Labels[KindLabel], RunsAs: runsAs(p), Request: request(p, gpu),
		Since: moment.Instant(max(p.CreationTimestamp.UnixMicro(), 0)),
	}
	out.Added.Owner, out.Added.Surges = succession(p)
	if out.Added.Surges {
		_, out.Deployment, _ = DeploymentOf(p)
		out.Running = out.Running && answers(p) // another is as good as it when it answers
	}
	out.Group, out.Added.Group = membership(p)
	ties(p, &out.Added)
	out.Queue = p.Labels[v1alpha1.QueueLabel]
	if p.Status.StartTime != nil {
		out.Started = instantOf(p.Status.StartTime.Time)
	}
	out.Work = p.Namespace + "/" + workOf(p)
	out.Job, out.JobFaults = JobOf(p.Annotations)
	out.Job.SLA = marked(p, SLAClass)
	for i := range out.Job.After {
		out.Job.After[i].Job = p.Namespace + "/" + out.Job.After[i].Job
	}
	out.GoneBy = (&annotationReader{from: p.Annotations}).instant(GoneBy)
	if out.Group != "" {
		out.Added.Rank, out.Added.Ranked = rank(p, &out.JobFaults)
	}
	out.Claims = claims(p)
	if out.Standing == Waiting && len(out.Added.Request.Devices) > 0 {
		out.Asked, out.Resource = asked(p, gpu), string(gpu)
		if s := p.Status.ExtendedResourceClaimStatus; s != nil {
			out.Extended = s.ResourceClaimName
		}
	}
	if p.Spec.SchedulerName == scheduler {
		out.Needs = needs(p)
	}
	out.Prefetch = prefetch(p)
	out.Tied, out.Added.Request.Rim = volumes(p)
	if p.Spec.Priority != nil {
		out.Added.Priority = *p.Spec.Priority
	}
	out.Added.PreemptNever = p.Spec.PreemptionPolicy != nil && *p.Spec.PreemptionPolicy == corev1.PreemptNever
	// The kubelet makes a static pod anew, whoever evicts its mirror.
	_, out.Added.Protected = p.Annotations[corev1.MirrorPodAnnotationKey]
	if out.Standing == Waiting {
		out.Added.Request.Selector = selector(&p.Spec)
		out.Added.Request.Tolerations = tolerations(p.Spec.Tolerations)
	}
	return out
}

// told returns the message of the condition that says why a pod is not scheduled.
func told(p *corev1.Pod) string {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Message
		}
	}
	return ""
}

// Key is the name of a pod in the world.
func Key(p *corev1.Pod) string { return p.Namespace + "/" + p.Name }

// request returns the effective request of a pod as Kubernetes counts it: init
// containers, sidecars, overhead, pod-level resources, and what a resize in
// place has reached.
func request(p *corev1.Pod, gpu corev1.ResourceName) world.Request {
	var out world.Request
	list := resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{
		UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true,
	})
	for name, amount := range list { // order: each entry has a place of its own
		switch name {
		case corev1.ResourceCPU:
			out.CPU = quantity.MilliCPU(Thousandths(&amount))
		case corev1.ResourceMemory:
			out.Memory = quantity.Bytes(Units(&amount))
		case corev1.ResourcePods:
		case gpu:
			if p.Spec.NodeName == "" || !viaClaim(p, gpu) {
				out.Devices = cards(Units(&amount))
			}
		default:
			out.Extended = counted(out.Extended, name, Units(&amount))
		}
	}
	return out
}

// cards asks for n whole cards. The world takes requests for up to MaxDevices; a
// larger one is cut into several, which no node can hold.
func cards(n int64) []world.DeviceRequest {
	var out []world.DeviceRequest
	for ; n > 0 && len(out) <= 1; n -= MaxDevices {
		out = append(out, world.DeviceRequest{Count: int32(min(n, MaxDevices)), Milli: quantity.WholeGPU})
	}
	return out
}

// unsupported names the first thing a pod asks for that the placement does not
// look at yet; empty when there is none.
func unsupported(p *corev1.Pod) string {
	s := &p.Spec
	if s.SchedulingGroup != nil && s.SchedulingGroup.PodGroupName == nil {
		return "a scheduling group of a kind that is not known"
	}
	return unreadable(p)
}

// volumes names the first volume that ties a pod to some nodes, and sums up all
// of these, so that pods with the same ones ask for the same.
func volumes(p *corev1.Pod) (first, all string) {
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		if local(&v.VolumeSource) {
			continue
		}
		if first == "" {
			first = "volume " + v.Name + " of a kind that ties the pod to some nodes"
		}
		if v.PersistentVolumeClaim != nil {
			all += p.Namespace + "/" + v.PersistentVolumeClaim.ClaimName + ";"
		} else {
			all += Key(p) + "/" + v.Name + ";" // its own
		}
	}
	return first, all
}

// local says whether a volume can be had on every node.
func local(v *corev1.VolumeSource) bool {
	return v.EmptyDir != nil || v.ConfigMap != nil || v.Secret != nil || v.Projected != nil || v.DownwardAPI != nil ||
		v.HostPath != nil || v.NFS != nil || v.Image != nil
}

// runsAs names pods that are expected to run for as long as each other: those of one
// namespace that run the same commands in the same images and ask for the same. Pods of
// services have no run time.
func runsAs(p *corev1.Pod) string {
	if owner := metav1.GetControllerOf(p); owner != nil && owner.APIVersion == appsv1.SchemeGroupVersion.String() {
		return ""
	}
	h := chance.HashString(p.Namespace)
	add := func(texts ...string) {
		h = chance.Fold(h, uint64(len(texts)))
		for _, text := range texts {
			h = chance.Fold(h, chance.HashString(text))
		}
	}
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		add(c.Image)
		add(c.Command...)
		add(c.Args...)
		for _, name := range slices.Sorted(maps.Keys(c.Resources.Requests)) {
			amount := c.Resources.Requests[name]
			add(string(name), amount.String())
		}
	}
	return fmt.Sprintf("template-%016x", h)
}
