package facts

import (
	"fmt"
	"slices"
	"time"

	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// ImageCache is the annotation by which a node says how many bytes of images it keeps, as
// a quantity; else a part of its ephemeral storage counts.
const ImageCache = "headrace.dev/image-cache"

const (
	// ListedImages is how many images a kubelet lists at most, the largest first, unless
	// its nodeStatusMaxImages says otherwise: what is not in a list of so many may be there.
	ListedImages = 50
	// mostImages and mostNames bound what is read of a node: ten times what kubelets list,
	// and twice as many names of an image as they give.
	mostImages, mostNames = 10 * ListedImages, 10
	// mostNeeds bounds what is read of a pod.
	mostNeeds = 32
	// mostReference bounds a reference: a name of 255 characters, a tag of 128 or a digest.
	mostReference = 512
	// MostSize bounds the size of an image, so that no sum of them overflows.
	MostSize quantity.Bytes = 1 << 44
)

// Image is one that a node has.
type Image struct {
	Names []string // as the node writes them
	Size  quantity.Bytes
}

// Need is an image that has to be on a pod's node before it starts. An image that a pod
// mounts as a volume counts as weights: that is how these come as artifacts of a registry.
type Need struct {
	Name string // as ImageName gives it
	Sort cluster.ArtifactSort
	// Private says that the pod brings secrets to pull with, Local that it has the image
	// never pulled.
	Private, Local bool
}

// ImageName is the one name of an image that is written in several ways: with its registry,
// and with its digest, or else its tag. Empty for what is no reference.
func ImageName(text string) string {
	if len(text) > mostReference {
		return ""
	}
	named, err := reference.ParseNormalizedNamed(text)
	if err != nil {
		return ""
	}
	if digested, ok := named.(reference.Digested); ok {
		only, err := reference.WithDigest(reference.TrimNamed(named), digested.Digest())
		if err != nil {
			return ""
		}
		return only.String()
	}
	return reference.TagNameOnly(named).String()
}

// images returns what a node says it has.
func images(n *corev1.Node) []Image {
	listed := n.Status.Images[:min(len(n.Status.Images), mostImages)]
	var out []Image
	for i := range listed {
		one := Image{Names: listed[i].Names[:min(len(listed[i].Names), mostNames)], Size: quantity.Bytes(listed[i].SizeBytes)}
		if one.Size > 0 && one.Size <= MostSize {
			out = append(out, one)
		}
	}
	return out
}

// imageRoom is what a node says it keeps for images; 0 where it says nothing.
func imageRoom(n *corev1.Node) (quantity.Bytes, string) {
	text, said := n.Annotations[ImageCache]
	if !said {
		return 0, ""
	}
	q, err := resource.ParseQuantity(text)
	if err != nil || q.Sign() <= 0 {
		return 0, fmt.Sprintf("annotation %s %q: must be a quantity above 0, as 500Gi", ImageCache, text)
	}
	return quantity.Bytes(Units(&q)), ""
}

// needs returns the images that a pod needs, each once.
func needs(p *corev1.Pod) []Need {
	var out []Need
	add := func(text string, sort cluster.ArtifactSort, policy corev1.PullPolicy) {
		name := ImageName(text)
		if name == "" || len(out) == mostNeeds || slices.ContainsFunc(out, func(n Need) bool { return n.Name == name }) {
			return
		}
		out = append(out, Need{Name: name, Sort: sort, Private: len(p.Spec.ImagePullSecrets) > 0, Local: policy == corev1.PullNever})
	}
	for i := range p.Spec.Volumes {
		if v := p.Spec.Volumes[i].Image; v != nil {
			add(v.Reference, cluster.ArtifactWeights, v.PullPolicy)
		}
	}
	for _, all := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range all {
			add(all[i].Image, cluster.ArtifactImage, all[i].ImagePullPolicy)
		}
	}
	return out
}

// ImagesOf returns the names of the images that a pod needs.
func ImagesOf(p *corev1.Pod) (out []string) {
	for _, n := range needs(p) {
		out = append(out, n.Name)
	}
	return out
}

// The marks of a pod that does nothing but have its node fetch an image: a label, and
// annotations with the name of the scheduler that made it, the image and the decision.
const (
	PrefetchLabel    = "headrace.dev/prefetch"
	PrefetchBy       = "headrace.dev/prefetch-by"
	PrefetchImage    = "headrace.dev/prefetch-image"
	PrefetchDecision = "headrace.dev/prefetch-decision"
)

// Prefetch is what there is to know about such a pod.
type Prefetch struct {
	Scheduler, Image, Decision string
	Made                       time.Time
	// Trouble says why the image does not come.
	Trouble string
}

// prefetch reads one; nil for any other pod.
func prefetch(p *corev1.Pod) *Prefetch {
	if _, marked := p.Labels[PrefetchLabel]; !marked {
		return nil
	}
	out := &Prefetch{Scheduler: p.Annotations[PrefetchBy], Image: p.Annotations[PrefetchImage], Decision: p.Annotations[PrefetchDecision], Made: p.CreationTimestamp.Time}
	for i := range p.Status.ContainerStatuses {
		switch w := p.Status.ContainerStatuses[i].State.Waiting; {
		case w == nil || w.Reason == "" || w.Reason == "ContainerCreating" || w.Reason == "PodInitializing":
		default:
			out.Trouble = w.Reason + ": " + w.Message
		}
	}
	return out
}
