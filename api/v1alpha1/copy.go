package v1alpha1

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// DeepCopyInto copies a group, with nothing shared.
func (in *PodGroup) DeepCopyInto(out *PodGroup) {
	out.TypeMeta = in.TypeMeta
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	in.Spec.DeepCopyInto(&out.Spec)
	in.Status.DeepCopyInto(&out.Status)
}

// DeepCopy returns a copy that shares nothing.
func (in *PodGroup) DeepCopy() *PodGroup {
	if in == nil {
		return nil
	}
	out := new(PodGroup)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyObject returns a copy as a runtime.Object.
func (in *PodGroup) DeepCopyObject() runtime.Object {
	if in == nil {
		return nil
	}
	return in.DeepCopy()
}

// DeepCopyInto copies a list, with nothing shared.
func (in *PodGroupList) DeepCopyInto(out *PodGroupList) {
	out.TypeMeta = in.TypeMeta
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = nil
	if in.Items != nil {
		out.Items = make([]PodGroup, len(in.Items))
		for i := range in.Items {
			in.Items[i].DeepCopyInto(&out.Items[i])
		}
	}
}

// DeepCopy returns a copy that shares nothing.
func (in *PodGroupList) DeepCopy() *PodGroupList {
	if in == nil {
		return nil
	}
	out := new(PodGroupList)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyObject returns a copy as a runtime.Object.
func (in *PodGroupList) DeepCopyObject() runtime.Object {
	if in == nil {
		return nil
	}
	return in.DeepCopy()
}

// DeepCopyInto copies a spec, with nothing shared.
func (in *PodGroupSpec) DeepCopyInto(out *PodGroupSpec) {
	*out = PodGroupSpec{Parent: in.Parent, Communication: in.Communication, HoldSeconds: copied(in.HoldSeconds)}
	out.SchedulingPolicy.Basic = copied(in.SchedulingPolicy.Basic)
	if gang := in.SchedulingPolicy.Gang; gang != nil {
		out.SchedulingPolicy.Gang = &GangPolicy{MinCount: gang.MinCount, MaxCount: copied(gang.MaxCount), MinGroupCount: copied(gang.MinGroupCount)}
	}
	if in.SchedulingConstraints != nil {
		out.SchedulingConstraints = &SchedulingConstraints{Topology: slices.Clone(in.SchedulingConstraints.Topology)}
	}
	out.SubGroups = slices.Clone(in.SubGroups)
	for i := range out.SubGroups {
		out.SubGroups[i].MaxCount = copied(in.SubGroups[i].MaxCount)
		out.SubGroups[i].Topology = slices.Clone(in.SubGroups[i].Topology)
	}
}

// DeepCopyInto copies a status, with nothing shared.
func (in *PodGroupStatus) DeepCopyInto(out *PodGroupStatus) {
	out.Conditions = nil
	if in.Conditions != nil {
		out.Conditions = make([]metav1.Condition, len(in.Conditions))
		for i := range in.Conditions {
			in.Conditions[i].DeepCopyInto(&out.Conditions[i])
		}
	}
}

// copied returns a pointer to a copy of a value without pointers.
func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	out := *p
	return &out
}

// DeepCopyInto copies a queue, with nothing shared.
func (in *Queue) DeepCopyInto(out *Queue) {
	out.TypeMeta = in.TypeMeta
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	in.Spec.DeepCopyInto(&out.Spec)
	in.Status.DeepCopyInto(&out.Status)
}

// DeepCopy returns a copy that shares nothing.
func (in *Queue) DeepCopy() *Queue {
	if in == nil {
		return nil
	}
	out := new(Queue)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyObject returns a copy as a runtime.Object.
func (in *Queue) DeepCopyObject() runtime.Object {
	if in == nil {
		return nil
	}
	return in.DeepCopy()
}

// DeepCopyInto copies a list, with nothing shared.
func (in *QueueList) DeepCopyInto(out *QueueList) {
	out.TypeMeta = in.TypeMeta
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = nil
	if in.Items != nil {
		out.Items = make([]Queue, len(in.Items))
		for i := range in.Items {
			in.Items[i].DeepCopyInto(&out.Items[i])
		}
	}
}

// DeepCopy returns a copy that shares nothing.
func (in *QueueList) DeepCopy() *QueueList {
	if in == nil {
		return nil
	}
	out := new(QueueList)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyObject returns a copy as a runtime.Object.
func (in *QueueList) DeepCopyObject() runtime.Object {
	if in == nil {
		return nil
	}
	return in.DeepCopy()
}

// DeepCopyInto copies a spec, with nothing shared.
func (in *QueueSpec) DeepCopyInto(out *QueueSpec) {
	*out = QueueSpec{Parent: in.Parent, Deserved: in.Deserved.DeepCopy(), Limit: in.Limit.DeepCopy(), Weight: copied(in.Weight)}
}

// DeepCopyInto copies a status, with nothing shared.
func (in *QueueStatus) DeepCopyInto(out *QueueStatus) {
	*out = QueueStatus{
		Used: in.Used.DeepCopy(), Quota: in.Quota.DeepCopy(), FairShare: in.FairShare.DeepCopy(), Waiting: in.Waiting, Message: in.Message,
	}
}

// DeepCopy returns a copy that shares nothing.
func (in ResourceList) DeepCopy() ResourceList {
	if in == nil {
		return nil
	}
	out := make(ResourceList, len(in))
	for name, amount := range in { // order: into another map
		out[name] = amount.DeepCopy()
	}
	return out
}
