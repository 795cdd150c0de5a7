package inventory

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/headrace-dev/headrace/api/v1alpha1"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/sim/trace"

	"github.com/headrace-dev/headrace/live/kube/facts"
	"github.com/headrace-dev/headrace/live/share"
)

// DRAPodOf returns the pod for one of the workload on nodes that let cards be shared:
// it asks for its share by annotation, and for whole cards too.
func DRAPodOf(p *trace.Pod, scheduler string, run time.Duration) *corev1.Pod {
	out := PodOf(p, scheduler, run)
	if p.GPUs == 0 {
		return out
	}
	c := &out.Spec.Containers[0]
	delete(c.Resources.Requests, GPUResource)
	delete(c.Resources.Limits, GPUResource)
	out.Annotations[share.Prefix+c.Name] = share.Ask{Count: p.GPUs, Milli: p.Milli}.String()
	return out
}

// PodOf returns the pod for one of the workload, to be placed by a scheduler and
// to run for a time. A share of a GPU becomes a whole
// card: these nodes give nothing smaller.
func PodOf(p *trace.Pod, scheduler string, run time.Duration) *corev1.Pod {
	requests := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(int64(p.CPU), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(int64(p.Memory), resource.BinarySI),
	}
	limits := corev1.ResourceList{}
	if p.GPUs > 0 {
		requests[GPUResource] = *resource.NewQuantity(int64(p.GPUs), resource.DecimalSI)
		limits[GPUResource] = requests[GPUResource]
	}
	out := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: p.Name, Labels: map[string]string{v1alpha1.QueueLabel: p.Queue, facts.KindLabel: p.Kind},
			Annotations: map[string]string{RunFor: run.Round(time.Millisecond).String()},
		},
		Spec: corev1.PodSpec{
			SchedulerName: scheduler, PriorityClassName: p.Queue, RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{
				Name: "work", Image: "headrace.invalid/work", Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits},
			}},
		},
	}
	images(out, p)
	if len(p.Models) > 0 {
		out.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: facts.ProductLabel, Operator: corev1.NodeSelectorOpIn, Values: p.Models}},
			}}},
		}}
	}
	return out
}

// registry is where the images of simulated pods would be. Nothing is fetched from there.
const registry = "headrace.invalid/"

// images gives a pod of a kind that says how large its image and its weights are these, as
// an image to run and one to mount.
func images(out *corev1.Pod, p *trace.Pod) {
	var sizes []string
	name := func(part string, size quantity.Bytes) string {
		image := facts.ImageName(registry + strings.ToLower(p.Kind) + "/" + part)
		if p.Kind == "" || size <= 0 || image == "" {
			return ""
		}
		sizes = append(sizes, fmt.Sprintf("%s=%d", image, size))
		return image
	}
	if image := name("image", p.Use.Image); image != "" {
		out.Spec.Containers[0].Image = image
	}
	if weights := name("weights", p.Use.Weights); weights != "" {
		out.Spec.Volumes = []corev1.Volume{{Name: "weights", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: weights}}}}
		out.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "weights", MountPath: "/weights", ReadOnly: true}}
	}
	if sizes != nil {
		out.Annotations[ImageSizes] = strings.Join(sizes, ",")
	}
}

// ImageSizesOf reads how large the images of a pod are. What cannot be read is left out.
func ImageSizesOf(p *corev1.Pod) map[string]int64 {
	out := make(map[string]int64)
	for _, part := range strings.Split(p.Annotations[ImageSizes], ",") {
		image, text, _ := strings.Cut(strings.TrimSpace(part), "=")
		if q, err := resource.ParseQuantity(text); err == nil && q.Sign() > 0 && facts.ImageName(image) != "" {
			out[facts.ImageName(image)] = facts.Units(&q)
		}
	}
	return out
}
