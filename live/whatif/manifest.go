package whatif

import (
	"errors"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/headrace-dev/headrace/live/kube/facts"
)

const (
	// MostManifest bounds the size of a manifest, as the API server does.
	MostManifest = 3 << 20
	// MostCopies bounds how many pods are asked about at a time.
	MostCopies = 10_000
)

// Submission says how pods would be submitted.
type Submission struct {
	Namespace string // where the manifest names none
	Scheduler string
	Copies    int // 0: one, or as many as a job runs at a time
	Classes   []schedulingv1.PriorityClass
	// Taken are the names of pods that are there already.
	Taken map[string]bool
}

// Read makes pods of a manifest: a Pod or a Job, as YAML or JSON.
func (s *Submission) Read(text []byte) ([]*corev1.Pod, error) {
	if len(text) > MostManifest {
		return nil, fmt.Errorf("%d bytes: at most %d", len(text), MostManifest)
	}
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(text, nil, nil)
	if err != nil {
		return nil, err
	}
	first, copies := &corev1.Pod{}, 1
	switch o := object.(type) {
	case *corev1.Pod:
		first = o
	case *batchv1.Job:
		first.ObjectMeta = o.Spec.Template.ObjectMeta
		first.Name, first.Namespace, first.Spec = o.Name, o.Namespace, o.Spec.Template.Spec
		if o.Spec.Parallelism != nil {
			copies = int(*o.Spec.Parallelism)
		}
		if d := o.Spec.ActiveDeadlineSeconds; d != nil && first.Spec.ActiveDeadlineSeconds == nil {
			first.Spec.ActiveDeadlineSeconds = d
		}
	default:
		return nil, fmt.Errorf("a %s: want a Pod or a Job", object.GetObjectKind().GroupVersionKind().Kind)
	}
	if s.Copies > 0 {
		copies = s.Copies
	}
	if copies < 1 || copies > MostCopies {
		return nil, fmt.Errorf("%d copies: want 1 to %d", copies, MostCopies)
	}
	if first.Namespace == "" {
		first.Namespace = s.Namespace
	}
	if first.Name == "" {
		first.Name = first.GenerateName + "pod"
	}
	if faults := validation.IsDNS1123Subdomain(first.Name); len(faults) > 0 {
		return nil, fmt.Errorf("metadata.name %q: %s", first.Name, faults[0])
	}
	if len(first.Spec.Containers) == 0 {
		return nil, errors.New("spec.containers is empty: a pod has at least one")
	}
	first.Spec.NodeName, first.Spec.SchedulerName, first.DeletionTimestamp = "", s.Scheduler, nil
	first.Status = corev1.PodStatus{}
	for _, containers := range [][]corev1.Container{first.Spec.InitContainers, first.Spec.Containers} {
		for i := range containers {
			complete(&containers[i].Resources)
		}
	}
	if first.Spec.Resources != nil {
		complete(first.Spec.Resources)
	}
	if err := s.rank(first); err != nil {
		return nil, err
	}
	return s.copies(first, copies), nil
}

// complete asks for what is limited where nothing else is asked for, as the API
// server does.
func complete(r *corev1.ResourceRequirements) {
	for name, amount := range r.Limits { // order: each has a place of its own
		if r.Requests == nil {
			r.Requests = corev1.ResourceList{}
		}
		if _, asked := r.Requests[name]; !asked {
			r.Requests[name] = amount
		}
	}
}

// copies names pods that are alike apart.
func (s *Submission) copies(first *corev1.Pod, n int) []*corev1.Pod {
	out := make([]*corev1.Pod, n)
	for i := range out {
		p := first.DeepCopy()
		if n > 1 {
			p.Name = fmt.Sprintf("%s-%d", first.Name, i)
		}
		for s.Taken[facts.Key(p)] {
			p.Name += "-new"
		}
		p.UID = types.UID("whatif-" + p.Name)
		out[i] = p
	}
	return out
}

// rank gives a pod the priority that its class says, as admission would.
func (s *Submission) rank(p *corev1.Pod) error {
	name := p.Spec.PriorityClassName
	value, policy, known := int32(0), p.Spec.PreemptionPolicy, name == ""
	switch name {
	case "system-cluster-critical":
		value, known = 2_000_000_000, true
	case "system-node-critical":
		value, known = 2_000_001_000, true
	}
	for i := range s.Classes {
		c := &s.Classes[i]
		if c.Name == name || name == "" && c.GlobalDefault {
			value, known = c.Value, true
			if c.PreemptionPolicy != nil {
				policy = c.PreemptionPolicy
			}
		}
	}
	if !known {
		return fmt.Errorf("spec.priorityClassName %q: no such priority class in the cluster", name)
	}
	if p.Spec.Priority == nil {
		p.Spec.Priority = &value
	}
	p.Spec.PreemptionPolicy = policy
	return nil
}
