package facts

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Surge is the annotation by which the author of a Deployment allows, in the template of
// its pods, that it is scaled up by one for a while, so that another pod runs before
// one goes.
const Surge = "headrace.dev/surge"

// succession names the owner that makes another pod when one has gone, and says whether it
// may be asked to make one before.
func succession(p *corev1.Pod) (owner string, surges bool) {
	o := metav1.GetControllerOf(p)
	if o == nil || o.Kind == "Node" { // the kubelet makes those of its own node
		return "", false
	}
	_, _, deployed := DeploymentOf(p)
	return string(o.UID), deployed && p.Annotations[Surge] == "true"
}

// DeploymentOf names the Deployment of a pod, as its labels and its ReplicaSet tell; ok is
// false where there is none.
func DeploymentOf(p *corev1.Pod) (namespace, name string, ok bool) {
	o, hash := metav1.GetControllerOf(p), p.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
	if o == nil || o.Kind != "ReplicaSet" || o.APIVersion != appsv1.SchemeGroupVersion.String() || hash == "" {
		return "", "", false
	}
	end := len(o.Name) - len(hash) - 1
	if end <= 0 || o.Name[end:] != "-"+hash {
		return "", "", false
	}
	return p.Namespace, o.Name[:end], true
}

func answers(p *corev1.Pod) bool {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
