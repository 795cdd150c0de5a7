package e2e

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// disks is a kind of local disks, each on a node of its own, that are bound when the
// first pod that uses them is placed. It is named after the namespace.
func (r *rig) disks() string {
	r.Helper()
	late := storagev1.VolumeBindingWaitForFirstConsumer
	_, err := client.StorageV1().StorageClasses().Create(r.Context(), &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: r.namespace}, Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: &late,
	}, metav1.CreateOptions{})
	r.ok(err)
	r.Cleanup(func() {
		if err := client.StorageV1().StorageClasses().Delete(context.Background(), r.namespace, metav1.DeleteOptions{}); err != nil {
			r.Errorf("delete class %s: %v", r.namespace, err)
		}
	})
	return r.namespace
}

// disk makes a local disk of a node.
func (r *rig) disk(name, node, size string, mode corev1.PersistentVolumeAccessMode) string {
	r.Helper()
	name = r.namespace + "-" + name
	_, err := client.CoreV1().PersistentVolumes().Create(r.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}, StorageClassName: r.namespace,
			AccessModes:                   []corev1.PersistentVolumeAccessMode{mode},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/disk"}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
			}}}},
		},
	}, metav1.CreateOptions{})
	r.ok(err)
	r.Cleanup(func() {
		if err := client.CoreV1().PersistentVolumes().Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			r.Errorf("delete volume %s: %v", name, err)
		}
	})
	return name
}

// askDisk makes a claim for a disk.
func (r *rig) askDisk(name, size string, mode corev1.PersistentVolumeAccessMode) {
	r.Helper()
	class := r.namespace
	_, err := client.CoreV1().PersistentVolumeClaims(r.namespace).Create(r.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{mode},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
		},
	}, metav1.CreateOptions{})
	r.ok(err)
}

// using mounts a claim.
func using(claim string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "disk", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}}}
	}
}

// A pod goes where a disk for its claim is, the disk is bound before the pod is,
// and the next pod with this claim follows it.
func TestVolumes(t *testing.T) {
	r := newRig(t)
	s, _ := r.schedule()
	r.disks()
	for _, name := range []string{"a", "b", "c"} {
		r.node(name, 1)
	}
	r.disk("small", "a", "1Gi", corev1.ReadWriteOnce)
	large := r.disk("large", "b", "20Gi", corev1.ReadWriteOnce)
	r.create(podOf("p", 0, using("data")))
	r.waits("p", `"data" not found`)
	r.askDisk("data", "10Gi", corev1.ReadWriteOnce)
	if node := r.bound("p"); node != "b" {
		t.Errorf("the pod is on %s, the only disk that is large enough on b", node)
	}
	claim, err := client.CoreV1().PersistentVolumeClaims(r.namespace).Get(t.Context(), "data", metav1.GetOptions{})
	r.ok(err)
	if claim.Spec.VolumeName != large || claim.Status.Phase != corev1.ClaimBound {
		t.Errorf("when its pod is bound, the claim is %s to %q, want Bound to %s", claim.Status.Phase, claim.Spec.VolumeName, large)
	}
	r.create(podOf("q", 1, using("data")))
	if node := r.bound("q"); node != "b" {
		t.Errorf("the second pod with the claim is on %s, its disk on b", node)
	}
	r.create(podOf("late", 1, using("data")))
	r.waits("late", "needs 1 idle device")
	r.counts(s, 1)
}

// A claim for one pod alone is used by one pod at a time.
func TestVolumeOfOnePod(t *testing.T) {
	r := newRig(t)
	r.schedule()
	r.disks()
	r.node("a", 0)
	r.disk("disk", "a", "1Gi", corev1.ReadWriteOncePod)
	r.askDisk("mine", "1Gi", corev1.ReadWriteOncePod)
	r.create(podOf("first", 0, using("mine")))
	r.bound("first")
	r.create(podOf("second", 0, using("mine")))
	r.waits("second", "ReadWriteOncePod")
	r.ok(client.CoreV1().Pods(r.namespace).Delete(t.Context(), "first", *metav1.NewDeleteOptions(0)))
	r.bound("second")
}

// Two pods want the same disk: one gets it, the other one waits and gets the next.
func TestVolumesRunOut(t *testing.T) {
	r := newRig(t)
	r.schedule()
	r.disks()
	r.node("a", 0)
	r.node("b", 0)
	r.disk("one", "a", "1Gi", corev1.ReadWriteOnce)
	for _, name := range []string{"x", "y"} {
		r.askDisk(name, "1Gi", corev1.ReadWriteOnce)
	}
	r.create(podOf("px", 0, using("x")), podOf("py", 0, using("y")))
	waiting := ""
	r.eventually("one pod is bound and the other one says why it waits", func() string {
		var bound []string
		for _, p := range r.pods() {
			switch {
			case p.Spec.NodeName != "":
				bound = append(bound, p.Name)
			case strings.Contains(reason(&p), "persistent volumes"):
				waiting = p.Name
			}
		}
		if len(bound) != 1 || waiting == "" {
			return "bound are " + strings.Join(bound, ", ") + ", waiting is " + waiting
		}
		return ""
	})
	r.disk("two", "b", "1Gi", corev1.ReadWriteOnce)
	if node := r.bound(waiting); node != "b" {
		t.Errorf("the second pod is on %s, the second disk on b", node)
	}
}
